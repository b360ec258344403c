import { isIP } from 'node:net';

/**
 * What to print at the start where a store that is given this address listens on every interface of the host;
 * undefined where it listens on one. A name is every interface: a host's own name often resolves to its
 * loopback.
 *
 * @param options.address given to `StoreServer`
 * @param options.source what the user gave it with, such as --master-addr
 */
export function everyInterfaceNotice(options: {
  readonly address: string;
  readonly source: string;
}): string | undefined {
  const { address, source } = options;
  // an address with a zone (fe80::1%eth0) is looked up like a name
  const isNumber = isIP(address) !== 0 && !address.includes('%');
  const isAny = address === '0.0.0.0' || address === '::';
  if (address === 'localhost' || (isNumber && !isAny)) return undefined;
  const why = isAny ? `${source} ${address}` : `${source} ${address} is a name, so that`;
  const what = `${why}${isAny ? ': ' : ' '}the store of the job listens on every interface of this host`;
  return `${what}; an IP address of this host limits it to that one`;
}
