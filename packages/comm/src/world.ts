import type { DeviceWaits } from './device-waits.js';
import type { ProcessGroup } from './process-group.js';

export interface GroupOptions {
  /** Names the group in errors and traces; with the ranks it identifies the group: members must agree. */
  readonly name: string;
  /** Global ranks of the members, this process among them, ascending. */
  readonly ranks: readonly number[];
}

/**
 * A process's view of its job. All members of a group must create it, in the same order as other groups that
 * they share.
 */
export interface World {
  readonly rank: number;
  readonly size: number;
  /** A group of all processes, called `world`. */
  readonly group: ProcessGroup;
  /** Measures waits of a GPU. Set where operations block the GPU and not the host (NCCL). */
  readonly deviceWaits?: DeviceWaits | undefined;
  createGroup(options: GroupOptions): ProcessGroup;
  /** Tells all processes that this one has failed and why: their operations fail, naming this rank. */
  abort(reason: Error): void;
  /** Leaves the job in order: the end of this process is not a failure for the others. */
  close(): void;
  [Symbol.dispose](): void;
}
