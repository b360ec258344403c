import { describe, expect, it } from 'vitest';
import { resolveSocketAddress } from './gloo-engine.js';

const common = { netmask: '', mac: '', cidr: null } as const;
const interfaces = {
  lo: [{ ...common, address: '127.0.0.1', family: 'IPv4', internal: true }],
  eth0: [
    { ...common, address: 'fe80::1', family: 'IPv6', internal: false, scopeid: 2 },
    { ...common, address: 'fd00::7', family: 'IPv6', internal: false, scopeid: 0 },
    { ...common, address: '10.1.2.3', family: 'IPv4', internal: false },
  ],
  ib0: [{ ...common, address: 'fd00::8', family: 'IPv6', internal: false, scopeid: 0 }],
} satisfies NodeJS.Dict<unknown>;

const resolve = (
  options: Partial<Parameters<typeof resolveSocketAddress>[0]>,
  environment: Readonly<Record<string, string>> = {},
): string =>
  resolveSocketAddress({
    isOneHost: false,
    environment,
    interfaces: interfaces as unknown as NonNullable<
      Parameters<typeof resolveSocketAddress>[0]['interfaces']
    >,
    ...options,
  });

describe('resolveSocketAddress', () => {
  it('takes the option before the environment, and a name or an address', () => {
    expect(resolve({ socketInterface: 'eth0' }, { MTL_SOCKET_INTERFACE: 'ib0' })).toBe('10.1.2.3');
    expect(resolve({ socketInterface: 'fd00::7' })).toBe('fd00::7');
    expect(resolve({}, { MTL_SOCKET_INTERFACE: 'ib0', GLOO_SOCKET_IFNAME: 'eth0' })).toBe('fd00::8');
    expect(resolve({}, { GLOO_SOCKET_IFNAME: 'eth0' })).toBe('10.1.2.3');
  });

  it('takes the loopback only where all ranks are on this host and nothing is said', () => {
    expect(resolve({ isOneHost: true })).toBe('127.0.0.1');
    expect(resolve({ isOneHost: true }, { MTL_SOCKET_INTERFACE: 'eth0' })).toBe('10.1.2.3');
    expect(() => resolve({})).toThrow(/no network interface is chosen/);
  });

  it('refuses what is not there, with what is', () => {
    expect(() => resolve({}, { MTL_SOCKET_INTERFACE: 'eth1' })).toThrow(
      expect.objectContaining({
        code: 'MTL_SOCKET_INTERFACE',
        message: 'MTL_SOCKET_INTERFACE "eth1" is not on this host',
        expected: 'one of lo (127.0.0.1), eth0 (fd00::7), eth0 (10.1.2.3), ib0 (fd00::8)',
      }),
    );
  });
});
