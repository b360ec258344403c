import type { MtlError } from '@mtl/errors';
import { checkRanks } from '../checked-group.js';
import type { DeviceWaits } from '../device-waits.js';
import type { Engine } from '../engines/engine.js';
import type { ProcessEnvironment } from '../environment/process-environment.js';
import type { TakenTrace } from '../native/comm-addon.js';
import type { NativeJob } from '../native/native-job.js';
import type { ProcessGroup } from '../process-group.js';
import { SingleProcessGroup } from '../single-process-group.js';
import type { NativeStore } from '../store/store.js';
import type { StoreServer } from '../store/store-server.js';
import type { GroupOptions, World } from '../world.js';

/** How long a failing process waits for the store to inform the other ranks, in milliseconds. */
const tellTimeoutMs = 1_000;

/** The resources of a world with several processes. A single process has none. */
export interface JoinedResources {
  readonly job: NativeJob;
  readonly store: NativeStore;
  /** The server of the store, if this process runs it. */
  readonly server: StoreServer | undefined;
  readonly engine: Engine;
  readonly timeoutMs: number;
}

/** Calls all functions in order, even if some throw. Then throws the first error. */
function closeAll([first, ...rest]: readonly (() => void)[]): void {
  if (first === undefined) return;
  try {
    first();
  } finally {
    closeAll(rest);
  }
}

/** A world whose processes have found each other through their launcher's variables. */
export class JoinedWorld implements World {
  readonly environment: ProcessEnvironment;
  readonly rank: number;
  readonly size: number;
  readonly group: ProcessGroup;
  readonly #parts: JoinedResources | undefined;
  #isClosed = false;

  /** `parts` is undefined for a single process. */
  constructor(environment: ProcessEnvironment, parts?: JoinedResources) {
    this.environment = environment;
    this.rank = environment.rank;
    this.size = environment.worldSize;
    this.#parts = parts;
    this.group = this.createGroup({
      name: 'world',
      ranks: Array.from({ length: this.size }, (_, rank) => rank),
    });
  }

  get deviceWaits(): DeviceWaits | undefined {
    return this.#parts?.engine.deviceWaits;
  }

  /** Creates a group. A group with one rank is a SingleProcessGroup, whatever the engine. */
  createGroup({ name, ranks }: GroupOptions): ProcessGroup {
    checkRanks({ name, ranks }, this.rank);
    if (this.#parts === undefined || ranks.length === 1) return new SingleProcessGroup(name, this.rank);
    return this.#parts.engine.createGroup({ name, ranks });
  }

  /** The reason why the job has failed, on whichever rank; undefined if the job has not failed. */
  get failure(): MtlError | undefined {
    return this.#isClosed ? undefined : this.#parts?.job.failure;
  }

  /**
   * Makes all ranks fail with `reason` (or with an earlier failure), and returns when they have been
   * informed.
   */
  abort(reason: Error): void {
    if (this.#parts === undefined || this.#isClosed) return;
    this.#parts.job.abort(reason);
    this.#parts.store.tellAbort(tellTimeoutMs);
  }

  /**
   * Returns the latest operations of all groups (at most 8192), for measuring overlap. `numDropped` is the
   * number of older operations that were dropped.
   */
  takeTrace(): TakenTrace {
    return this.#parts?.job.takeTrace() ?? Object.assign([], { numDropped: 0 });
  }

  /**
   * Leaves the job cleanly. The process with the store's server waits until all other processes have left.
   */
  close(): void {
    if (this.#parts === undefined || this.#isClosed) return;
    this.#isClosed = true;
    const { job, store, server, engine, timeoutMs } = this.#parts;
    const isFailed = job.failure !== undefined;
    const closing = [
      () => engine.close(),
      () => store.close(),
      () => job.close(),
      () => server?.close({ timeoutMs: isFailed ? 0 : timeoutMs }),
    ];
    closeAll(closing);
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
