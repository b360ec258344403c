import { addon, awaitNative, callNative } from '../native/addon.js';
import type { NativeJob } from '../native/native-job.js';

/**
 * A key-value store that the ranks of a job use to find each other. Calls block the thread. Each key can be
 * written once.
 */
export interface Store {
  set(key: string, value: Uint8Array): void;
  /**
   * Waits for the value of a key and returns it.
   * @throws CommunicationError MTL_TIMEOUT, naming the key, when no rank sets it within `timeoutMs`.
   */
  get(key: string, timeoutMs: number): Uint8Array;
}

interface NativeStoreOptions {
  readonly job: NativeJob;
  readonly address: string;
  /** The ports at which the store may be; it is at one of these. */
  readonly ports: readonly number[];
  readonly secret: string;
  readonly worldSize: number;
  /**
   * How often the job was restarted. If the store belongs to another attempt, the client waits until that
   * store is gone.
   */
  readonly attempt: number;
  /** How long to look for the store, in milliseconds. */
  readonly timeoutMs: number;
  /** The word for a joining process in messages. Default: rank. */
  readonly member?: string;
}

/**
 * A rank's connection to the store of its job. From its creation on, the store's server notices the end or
 * the silence of this process, and aborts are sent to and received from all ranks.
 */
export class NativeStore implements Store {
  /** The native handle, for other functions of the addon. */
  readonly handle: number;

  /** @throws CommunicationError MTL_STORE_UNREACHABLE, MTL_STORE_REFUSED */
  constructor(options: NativeStoreOptions) {
    const { job, address, ports, secret, worldSize, attempt, timeoutMs, member = 'rank' } = options;
    this.handle = callNative(() =>
      addon().openStoreClient(job.handle, { address, ports, secret, worldSize, attempt, timeoutMs, member }),
    );
  }

  /** @throws CommunicationError MTL_STORE_REFUSED for a key that was set before, or a store that is full. */
  set(key: string, value: Uint8Array): void {
    callNative(() => addon().setInStore(this.handle, { key, value }));
  }

  get(key: string, timeoutMs: number): Uint8Array {
    return callNative(() => addon().getFromStore(this.handle, { key, timeoutMs }));
  }

  /**
   * Waits for a key like `get`, but without blocking the event loop. Rejects with the failure of the job, and
   * with MTL_CLOSED when the store is closed. The job must be closed after the store.
   */
  getLater(key: string, timeoutMs: number): Promise<Uint8Array> {
    return awaitNative(() => addon().awaitInStore(this.handle, { key, timeoutMs }));
  }

  /** Returns the value of a key, or undefined while no rank has set it. */
  find(key: string): Uint8Array | undefined {
    return callNative(() => addon().findInStore(this.handle, key));
  }

  /** Adds to a counter, which starts at 0, and returns the sum. */
  add(key: string, delta: number): number {
    return callNative(() => addon().addInStore(this.handle, { key, delta }));
  }

  /** Waits until all keys are set. @throws CommunicationError MTL_TIMEOUT, naming the first missing key. */
  wait(keys: readonly string[], timeoutMs: number): void {
    const deadline = performance.now() + timeoutMs;
    for (const key of keys) this.get(key, Math.max(0, deadline - performance.now()));
  }

  /**
   * Waits, after an abort of the job, until the store has informed the others, so that this process may end.
   */
  tellAbort(timeoutMs: number): void {
    callNative(() => addon().tellStore(this.handle, timeoutMs));
  }

  /** Leaves in order: from now on the end of this process is not a failure. */
  close(): void {
    callNative(() => addon().closeStoreClient(this.handle));
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
