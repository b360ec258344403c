import { addon, awaitNative, callNative } from '../native/addon.js';
import type { NativeJob } from '../native/native-job.js';

/**
 * A key-value store through which the ranks of a job find each other. Calls block the thread. Each key can be
 * written only once.
 */
export interface Store {
  set(key: string, value: Uint8Array): void;
  /**
   * Waits until a rank has set a key, and returns the key's value.
   * @throws CommunicationError MTL_TIMEOUT, which names the key, if no rank sets it within `timeoutMs`.
   */
  get(key: string, timeoutMs: number): Uint8Array;
}

interface NativeStoreOptions {
  readonly job: NativeJob;
  readonly address: string;
  /** The possible ports of the store, which listens on one port of this list. */
  readonly ports: readonly number[];
  readonly secret: string;
  readonly worldSize: number;
  /**
   * How often the job has been restarted. If the store belongs to a different attempt, the client waits until
   * that store has ended.
   */
  readonly attempt: number;
  /** How long to look for the store, in milliseconds. */
  readonly timeoutMs: number;
  /** The word that messages use for a joining process. Default: rank. */
  readonly member?: string;
}

/**
 * A rank's connection to the store of its job. As long as it exists, the store's server notices if this
 * process ends or is silent, and aborts are sent to all ranks.
 */
export class NativeStore implements Store {
  /** The native handle, for functions of the addon outside of this class. */
  readonly handle: number;

  /** @throws CommunicationError MTL_STORE_UNREACHABLE, MTL_STORE_REFUSED */
  constructor(options: NativeStoreOptions) {
    const { job, address, ports, secret, worldSize, attempt, timeoutMs, member = 'rank' } = options;
    this.handle = callNative(() =>
      addon().openStoreClient(job.handle, { address, ports, secret, worldSize, attempt, timeoutMs, member }),
    );
  }

  /** @throws CommunicationError MTL_STORE_REFUSED if the key has already been set, or the store is full. */
  set(key: string, value: Uint8Array): void {
    callNative(() => addon().setInStore(this.handle, { key, value }));
  }

  get(key: string, timeoutMs: number): Uint8Array {
    return callNative(() => addon().getFromStore(this.handle, { key, timeoutMs }));
  }

  /**
   * Waits for a key like `get`, without blocking the event loop. Rejects with the job's failure, or with
   * MTL_CLOSED if the store is closed. The store must be closed before the job.
   */
  getLater(key: string, timeoutMs: number): Promise<Uint8Array> {
    return awaitNative(() => addon().awaitInStore(this.handle, { key, timeoutMs }));
  }

  /** Returns the value of a key; undefined if no rank has set it. */
  find(key: string): Uint8Array | undefined {
    return callNative(() => addon().findInStore(this.handle, key));
  }

  /** Adds to a counter, which starts at 0, and returns the sum. */
  add(key: string, delta: number): number {
    return callNative(() => addon().addInStore(this.handle, { key, delta }));
  }

  /**
   * Waits until all keys are set.
   *
   * @throws CommunicationError MTL_TIMEOUT, which names the first missing key.
   */
  wait(keys: readonly string[], timeoutMs: number): void {
    const deadline = performance.now() + timeoutMs;
    for (const key of keys) this.get(key, Math.max(0, deadline - performance.now()));
  }

  /** Waits until the store has informed the other ranks of an abort. Afterwards, this process may end. */
  tellAbort(timeoutMs: number): void {
    callNative(() => addon().tellStore(this.handle, timeoutMs));
  }

  /** Leaves the job cleanly. From now on, the end of this process does not count as a failure. */
  close(): void {
    callNative(() => addon().closeStoreClient(this.handle));
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
