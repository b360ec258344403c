import { isIP } from 'node:net';
import type { MtlError } from '@mtl/errors';
import { addon, callNative, convertFailure } from '../native/addon.js';

export interface StoreServerOptions {
  /**
   * The address to listen on. If the address is numeric, the server listens on one interface. If it is a name
   * (except localhost), the server listens on all interfaces. Default: loopback.
   */
  readonly address?: string;
  /** The possible ports. The server uses the first free port; 0 means any port. Default: any. */
  readonly ports?: readonly number[];
  readonly secret: string;
  readonly worldSize: number;
  /** How often the job has been restarted. Default: 0. */
  readonly attempt?: number;
  /** The rank of this process; undefined if the process is a launcher. */
  readonly hostRank?: number | undefined;
  /** The word that messages use for a joining process. Default: rank. */
  readonly member?: string;
  /** How long a rank may be silent before it counts as lost, in milliseconds. Default: 15 000. */
  readonly heartbeatLimitMs?: number;
}

/** The server of a job's store, which runs in a native thread of this process. */
export class StoreServer {
  readonly port: number;
  readonly #handle: number;
  #isClosed = false;

  /** @throws CommunicationError MTL_STORE_ADDRESS if no port is available. */
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

  /**
   * The reason why the job has failed, reported by a rank or due to a lost connection; undefined if the job
   * has not failed.
   */
  get failure(): MtlError | undefined {
    const failure = callNative(() => addon().failureOfStoreServer(this.#handle));
    return failure === undefined ? undefined : convertFailure(failure);
  }

  /** Makes the job fail because this process has noticed that a rank has ended. The first reason is kept. */
  abort({ rank, message }: { readonly rank: number; readonly message: string }): void {
    if (this.#isClosed) return;
    callNative(() => addon().abortStoreServer(this.#handle, { rank, code: 'MTL_RANK_DIED', message }));
  }

  /** Waits until all ranks that joined have left or are lost, then closes. A second call does nothing. */
  close({ timeoutMs = 0 }: { readonly timeoutMs?: number } = {}): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    callNative(() => addon().closeStoreServer(this.#handle, timeoutMs));
  }
}

/**
 * Returns a notice for the user if a store with this address listens on every interface of the host;
 * undefined if it listens on one interface. A name means every interface, because a host's own name often
 * resolves to its loopback address.
 *
 * @param options.address the address given to `StoreServer`
 * @param options.source the option that contains the address, such as --master-addr
 */
export function everyInterfaceNotice(options: {
  readonly address: string;
  readonly source: string;
}): string | undefined {
  const { address, source } = options;
  // an address with a zone (fe80::1%eth0) counts as a name, because it must be resolved
  const isNumber = isIP(address) !== 0 && !address.includes('%');
  const isAny = address === '0.0.0.0' || address === '::';
  if (address === 'localhost' || (isNumber && !isAny)) return undefined;
  const why = isAny ? `${source} ${address}` : `${source} ${address} is a name, so that`;
  const what = `${why}${isAny ? ': ' : ' '}the store of the job listens on every interface of this host`;
  return `${what}; an IP address of this host limits it to that one`;
}
