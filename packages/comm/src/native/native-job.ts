import { MtlError } from '@mtl/errors';
import { checkRanks } from '../checked-group.js';
import type { GroupOptions } from '../world.js';
import { addon, callNative, convertFailure } from './addon.js';
import type { TakenTrace } from './comm-addon.js';
import { NativeGroup } from './native-group.js';

export interface HostOptions {
  /** How long to wait for the ranks of this host, in milliseconds. */
  readonly timeoutMs: number;
  /**
   * How long this process may continue after the job has failed, in milliseconds. Then the watchdog ends the
   * process with status 1.
   */
  readonly graceMs: number;
}

interface LocalGroupOptions extends GroupOptions {
  /**
   * How long an operation waits for the other members, and creating a group for its first member, at most, in
   * milliseconds.
   */
  readonly timeoutMs: number;
  /**
   * The number of bytes to transfer at a time. A member uses about four times this amount of memory. Default:
   * chosen for the number of ranks and cores.
   */
  readonly bufferBytes?: number;
  /**
   * True for a group that also accepts tensors on device cuda, by copying them through host memory. Default:
   * false.
   */
  readonly isStaged?: boolean;
}

/**
 * A process's membership in a job, in native code: its abort state, the board that the ranks of a host share,
 * its watchdog and its groups. Worlds are built on this class. First, one rank of the host creates the board
 * and publishes the board's address in a store, and the other ranks open the board. Then all ranks call
 * `joinHost`. Afterwards the ranks can create groups.
 */
export class NativeJob {
  readonly rank: number;
  /** The native handle, for functions of the addon outside of this class. */
  readonly handle: number;
  #isClosed = false;

  /** `rank`: the global rank of this process. */
  constructor(rank: number) {
    this.rank = rank;
    this.handle = callNative(() => addon().createJob(rank));
  }

  /**
   * Creates the board of this host for `ranks` (global, ascending, including this rank) and returns its
   * address.
   */
  createHostBoard(ranks: readonly number[]): string {
    return callNative(() => addon().createHostBoard(this.handle, ranks));
  }

  /** Opens the board that another process of this host has created for the same ranks. */
  openHostBoard(ranks: readonly number[], address: string): void {
    callNative(() => addon().openHostBoard(this.handle, { ranks, address }));
  }

  /**
   * Waits for all ranks of the host, then monitors them. From now on, the end of a rank makes every operation
   * fail within a second.
   * @throws CommunicationError MTL_TIMEOUT, which names the ranks that did not join.
   */
  joinHost({ timeoutMs, graceMs }: HostOptions): void {
    callNative(() => addon().joinHost(this.handle, { timeoutMs, graceMs }));
  }

  /** Creates a group of ranks of this host over shared memory. All members must call it. */
  createLocalGroup(options: LocalGroupOptions): NativeGroup {
    const { name, ranks, timeoutMs, bufferBytes = 0, isStaged = false } = options;
    checkRanks({ name, ranks }, this.rank);
    const { group, engine } = callNative(() =>
      addon().createLocalGroup(this.handle, { name, ranks, timeoutMs, bufferBytes, isStaged }),
    );
    return new NativeGroup({ name, ranks, engine, worldRank: this.rank, handle: group });
  }

  /**
   * Makes every operation on all ranks of this host fail with `reason`. If there are several reasons, the
   * first is kept. If the reason names a rank (in `details.rank`), it is not changed; otherwise the error
   * names this rank.
   */
  abort(reason: Error): void {
    const isKnown = MtlError.isInstance(reason);
    const code = isKnown ? reason.code : 'MTL_ABORTED';
    const { rank: blamed } = isKnown ? reason.details : {};
    if (typeof blamed === 'number' && blamed !== this.rank) {
      callNative(() => addon().abortJob(this.handle, { code, message: reason.message, rank: blamed }));
      return;
    }
    const message = `rank ${this.rank} failed: ${isKnown ? '' : `${reason.name}: `}${reason.message}`;
    callNative(() => addon().abortJob(this.handle, { code, message, rank: this.rank }));
  }

  /** The reason why the job has failed; undefined if it has not failed. */
  get failure(): MtlError | undefined {
    const failure = callNative(() => addon().failureOfJob(this.handle));
    return failure === undefined ? undefined : convertFailure(failure);
  }

  /**
   * Returns the latest operations for which the program has waited (at most 8192), oldest first, and the
   * number of older operations that were dropped. The trace is empty afterwards.
   */
  takeTrace(): TakenTrace {
    return callNative(() => addon().takeTrace(this.handle));
  }

  /** Closes all groups and leaves the job cleanly. A second call does nothing. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    callNative(() => addon().closeJob(this.handle));
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
