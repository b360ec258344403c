import type { DeviceWaits } from './device-waits.js';
import type { ProcessGroup } from './process-group.js';

export interface GroupOptions {
  /**
   * The group's name in errors and traces. Name and ranks identify the group: all members must give the same.
   */
  readonly name: string;
  /** Global ranks of the members, ascending, including this process's. */
  readonly ranks: readonly number[];
}

/**
 * A process's view of its job. All members of a group must create it, and in the same order as the other
 * groups that they share.
 */
export interface World {
  readonly rank: number;
  readonly size: number;
  /** A group of all processes, called `world`. */
  readonly group: ProcessGroup;
  /** Measures waits of a GPU. Set if operations block the GPU and not the host (NCCL). */
  readonly deviceWaits?: DeviceWaits | undefined;
  createGroup(options: GroupOptions): ProcessGroup;
  /** Makes the operations of all processes fail with `reason`, naming this rank. */
  abort(reason: Error): void;
  /** Leaves the job in order: the end of this process is not a failure for the others. */
  close(): void;
  [Symbol.dispose](): void;
}
