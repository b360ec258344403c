import type { DeviceWaits } from './device-waits.js';
import type { ProcessGroup } from './process-group.js';

export interface GroupOptions {
  /**
   * The group's name in errors and traces. Name and ranks identify the group, so all members must pass the
   * same values.
   */
  readonly name: string;
  /** The global ranks of the members, ascending, including this process's rank. */
  readonly ranks: readonly number[];
}

/**
 * A process's membership in its job. All members of a group must create it. Members that share several groups
 * must create these groups in the same order.
 */
export interface World {
  readonly rank: number;
  readonly size: number;
  /** A group of all processes, called `world`. */
  readonly group: ProcessGroup;
  /** Measures how long the GPU waits. Defined only if operations block the GPU and not the host (NCCL). */
  readonly deviceWaits?: DeviceWaits | undefined;
  createGroup(options: GroupOptions): ProcessGroup;
  /** Makes the operations of all processes fail with `reason`; the error names this rank. */
  abort(reason: Error): void;
  /** Leaves the job cleanly. The other processes then do not treat the end of this process as a failure. */
  close(): void;
  [Symbol.dispose](): void;
}
