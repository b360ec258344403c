import { UsageError } from '@mtl/errors';
import { checkRanks } from '../checked-group.js';
import { joinHost } from '../engines/local-engine.js';
import type { TakenTrace } from '../native/comm-addon.js';
import { NativeJob } from '../native/native-job.js';
import type { ProcessGroup } from '../process-group.js';
import { SingleProcessGroup } from '../single-process-group.js';
import type { Store } from '../store/store.js';
import type { GroupOptions, World } from '../world.js';

export interface LocalWorldOptions {
  readonly rank: number;
  readonly size: number;
  readonly store: Store;
  /** How long an operation waits for the other ranks, at most, in milliseconds. Default: 600 000. */
  readonly timeoutMs?: number;
  /** How long to wait for all ranks to join, in milliseconds. Default: `timeoutMs`. */
  readonly joinTimeoutMs?: number;
  /**
   * How long this process may continue after the job has failed, in milliseconds. Then the watchdog ends the
   * process. Default: 10 000.
   */
  readonly abortGraceMs?: number;
  /**
   * The number of bytes that a collective transfers at a time. Default: chosen for the number of ranks and
   * cores.
   */
  readonly bufferBytes?: number;
}

/** A world whose processes all run on one host and communicate through shared memory. */
export class LocalWorld implements World {
  readonly rank: number;
  readonly size: number;
  readonly group: ProcessGroup;
  readonly #job: NativeJob;
  readonly #timeoutMs: number;
  readonly #bufferBytes: number | undefined;

  /**
   * Blocks until all ranks have joined.
   * @throws CommunicationError MTL_TIMEOUT, which names the ranks that have not joined.
   */
  constructor(options: LocalWorldOptions) {
    const { rank, size, store, bufferBytes, abortGraceMs = 10_000 } = options;
    const { timeoutMs = 600_000, joinTimeoutMs = timeoutMs } = options;
    if (!Number.isInteger(size) || !Number.isInteger(rank) || rank < 0 || rank >= size) {
      throw new UsageError('MTL_GROUP', `rank ${rank} in a world of ${size}`);
    }
    this.rank = rank;
    this.size = size;
    this.#timeoutMs = timeoutMs;
    this.#bufferBytes = bufferBytes;
    const ranks = Array.from({ length: size }, (_, each) => each);
    this.#job = new NativeJob(rank);
    joinHost({
      job: this.#job,
      ranks,
      store,
      key: 'mtl/host/0',
      timeoutMs: joinTimeoutMs,
      graceMs: abortGraceMs,
    });
    this.group = this.createGroup({ name: 'world', ranks });
  }

  createGroup({ name, ranks }: GroupOptions): ProcessGroup {
    checkRanks({ name, ranks }, this.rank);
    if (ranks.length === 1) return new SingleProcessGroup(name, this.rank);
    const timeoutMs = this.#timeoutMs;
    const buffer = this.#bufferBytes === undefined ? {} : { bufferBytes: this.#bufferBytes };
    return this.#job.createLocalGroup({ name, ranks, timeoutMs, ...buffer });
  }

  abort(reason: Error): void {
    this.#job.abort(reason);
  }

  /**
   * Returns the latest operations of all groups (at most 8192), for measuring overlap. `numDropped` is the
   * number of older operations that were dropped.
   */
  takeTrace(): TakenTrace {
    return this.#job.takeTrace();
  }

  close(): void {
    this.#job.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
