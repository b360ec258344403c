import { addon, awaitNative, callNative } from '../native/addon.js';
import type { NativeJob } from '../native/native-job.js';

/**
 * A key-value store through which the ranks of a job find each other. Calls block the thread. A key is
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
  /** The ports that are tried; the store is at one port. */
  readonly ports: readonly number[];
  readonly secret: string;
  readonly worldSize: number;
  /**
   * The number of times that the job was restarted: the client waits until the store of another attempt is
   * gone.
   */
  readonly attempt: number;
  /** The time to look for the store. */
  readonly timeoutMs: number;
  /** The word of messages for a process that joins. Default: rank. */
  readonly member?: string;
}

/**
 * A rank's connection to the store of its job. From the moment it is there, the store's server notices the
 * end or the silence of this process, and aborts go to and come from all ranks.
 */
export class NativeStore implements Store {
  /** The handle for further functions of the addon. */
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
   * Does what `get` does while the event loop goes on. Rejects with the failure of the job, and with
   * MTL_CLOSED when the store is closed; the job may be closed only after it.
   */
  getLater(key: string, timeoutMs: number): Promise<Uint8Array> {
    return awaitNative(() => addon().awaitInStore(this.handle, { key, timeoutMs }));
  }

  /** Returns the value of a key, or undefined while no rank has set it. */
  find(key: string): Uint8Array | undefined {
    return callNative(() => addon().findInStore(this.handle, key));
  }

  /** Adds to a counter, which starts at 0, and gives the sum. */
  add(key: string, delta: number): number {
    return callNative(() => addon().addInStore(this.handle, { key, delta }));
  }

  /** Waits until all keys are set. @throws CommunicationError MTL_TIMEOUT, naming the first that is not. */
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
