import type { MtlError } from '@mtl/errors';
import { addon, callNative, errorOf } from '../native/addon.js';

export interface StoreServerOptions {
  /**
   * Where it listens. A number is one interface, a name (other than localhost) all of them. Default: the
   * loopback.
   */
  readonly address?: string;
  /** The first free one is taken; 0 is any. Default: any. */
  readonly ports?: readonly number[];
  readonly secret: string;
  readonly worldSize: number;
  /** How often the job was restarted. Default 0. */
  readonly attempt?: number;
  /** The rank whose process this is; undefined: a launcher. */
  readonly hostRank?: number | undefined;
  /** What messages call a process that joins. Default: rank. */
  readonly member?: string;
  /** How long a rank may be silent before it counts as lost. Default 15 s. */
  readonly heartbeatLimitMs?: number;
}

/** The server of a job's store, in a native thread of this process. */
export class StoreServer {
  readonly port: number;
  readonly #handle: number;
  #isClosed = false;

  /** @throws CommunicationError MTL_STORE_ADDRESS when no port can be had. */
  constructor(options: StoreServerOptions) {
    const { address = '127.0.0.1', ports = [0], secret, worldSize, attempt = 0, hostRank = -1 } = options;
    const { heartbeatLimitMs = 15_000, member = 'rank' } = options;
    this.#handle = callNative(() =>
      addon().createStoreServer({
        address,
        ports,
        secret,
        worldSize,
        attempt,
        hostRank,
        heartbeatLimitMs,
        member,
      }),
    );
    this.port = addon().portOfStoreServer(this.#handle);
  }

  /** Why the job has failed, as far as its ranks or their connections told. */
  get failure(): MtlError | undefined {
    const failure = callNative(() => addon().failureOfStoreServer(this.#handle));
    return failure === undefined ? undefined : errorOf(failure);
  }

  /** Makes the job fail on account of a rank whose end this process has seen. The first reason stays. */
  abort({ rank, message }: { readonly rank: number; readonly message: string }): void {
    if (this.#isClosed) return;
    callNative(() => addon().abortStoreServer(this.#handle, { rank, code: 'MTL_RANK_DIED', message }));
  }

  /** Waits until all ranks that came have left or are lost, then closes. A second call does nothing. */
  close({ timeoutMs = 0 }: { readonly timeoutMs?: number } = {}): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    callNative(() => addon().closeStoreServer(this.#handle, timeoutMs));
  }
}
