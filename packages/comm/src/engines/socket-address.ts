import { networkInterfaces } from 'node:os';
import { ConfigurationError } from '@mtl/errors';

interface SocketAddressOptions {
  /**
   * Name of a network interface, or one of its IP addresses. Default: the environment variable
   * MTL_SOCKET_INTERFACE, else GLOO_SOCKET_IFNAME, else the loopback where all ranks are on this host.
   */
  readonly socketInterface?: string | undefined;
  readonly isOneHost: boolean;
  /** Default: this process's. */
  readonly environment?: Readonly<Record<string, string | undefined>>;
  /** Default: this machine's. */
  readonly interfaces?: ReturnType<typeof networkInterfaces>;
}

/**
 * Returns the IP address that connections of this process are made from and to. It is chosen explicitly, and
 * never by the name of the host: that often stands for the loopback, which no other host reaches.
 * @throws ConfigurationError MTL_SOCKET_INTERFACE when nothing is chosen or the choice does not exist, with
 *   those that do.
 */
export function resolveSocketAddress(options: SocketAddressOptions): string {
  const { isOneHost, environment = process.env, interfaces = networkInterfaces() } = options;
  const [source, chosen] = choiceOf(options.socketInterface, environment);
  const all = Object.entries(interfaces).flatMap(([name, addresses = []]) =>
    addresses.map(({ address, family, internal }) => ({ name, address, family, internal })),
  );
  const valid = all.filter(({ address }) => !isLinkLocal(address));
  const expected = `one of ${valid.map(({ name, address }) => `${name} (${address})`).join(', ')}`;
  if (chosen === undefined) {
    const loopback = valid.find(({ internal, family }) => internal && family === 'IPv4');
    if (isOneHost && loopback !== undefined) return loopback.address;
    throw new ConfigurationError(
      'MTL_SOCKET_INTERFACE',
      isOneHost
        ? 'this host has no loopback address'
        : 'no network interface is chosen, and the ranks are on several hosts',
      { expected, remedy: 'name the interface that the hosts share: MTL_SOCKET_INTERFACE=eth0' },
    );
  }
  const named = valid.filter(({ name, address }) => name === chosen || address === chosen);
  const found = named.find(({ family }) => family === 'IPv4') ?? named[0];
  if (found !== undefined) return found.address;
  throw new ConfigurationError('MTL_SOCKET_INTERFACE', `${source} "${chosen}" is not on this host`, {
    expected,
  });
}

function choiceOf(
  option: string | undefined,
  environment: Readonly<Record<string, string | undefined>>,
): [string, string | undefined] {
  if (option !== undefined) return ['the socket interface', option];
  for (const name of ['MTL_SOCKET_INTERFACE', 'GLOO_SOCKET_IFNAME']) {
    if (environment[name]) return [name, environment[name]];
  }
  return ['', undefined];
}

// needs a scope to be connected to
function isLinkLocal(address: string): boolean {
  return address.toLowerCase().startsWith('fe80:');
}
