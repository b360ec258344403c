import { StoreServer, type StoreServerOptions } from '@mtl/comm/internal';
import { CommunicationError, MtlError } from '@mtl/errors';

/** A store on the port of --master-port. @throws CommunicationError MTL_STORE_ADDRESS that names the flag */
export function serveStore(
  options: StoreServerOptions,
  { numNodes }: { readonly numNodes: number },
): StoreServer {
  try {
    return new StoreServer(options);
  } catch (cause) {
    if (!MtlError.isInstance(cause) || cause.code !== 'MTL_STORE_ADDRESS') throw cause;
    throw new CommunicationError(cause.code, cause.message, {
      expected: 'an address of this host and a port that no other program has',
      remedy:
        numNodes === 1
          ? 'leave --master-port out: any free port is taken'
          : 'pass another --master-port, the same on all hosts; another job of yours may still have this one',
      exitCode: 2,
      details: cause.details,
      cause,
    });
  }
}
