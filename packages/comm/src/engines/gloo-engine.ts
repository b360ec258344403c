import { networkInterfaces } from 'node:os';
import { CommunicationError, ConfigurationError, MtlError } from '@mtl/errors';
import { checkRanks } from '../checked-group.js';
import type { ProcessEnvironment } from '../environment/process-environment.js';
import { addon, callNative } from '../native/addon.js';
import { NativeGroup } from '../native/native-group.js';
import type { NativeJob } from '../native/native-job.js';
import type { Store } from '../store/store.js';
import type { GroupOptions } from '../world.js';
import type { Engine, EngineContext } from './engine.js';

/**
 * Checks every requirement of Gloo that can be checked before the other ranks have joined.
 *
 * @throws CommunicationError MTL_GLOO_LIBRARY; ConfigurationError MTL_SOCKET_INTERFACE
 */
export function checkGloo({ numNodes }: Pick<ProcessEnvironment, 'numNodes'>): void {
  const problem = glooProblem();
  if (problem !== undefined) {
    throw new CommunicationError('MTL_GLOO_LIBRARY', problem, { remedy: glooRemedy, exitCode: 2 });
  }
  resolveSocketAddress({ isOneHost: numNodes === 1 });
}

/**
 * Returns the engine `gloo`: TCP across hosts, and shared memory within each host. A group whose ranks are
 * all on one host uses only shared memory.
 */
export function glooEngine({ job, store, hosts, timeoutMs, isStaged }: EngineContext): Engine {
  const hostByRank = new Map(hosts.flatMap((ranks, host) => ranks.map((rank) => [rank, host] as const)));
  return {
    name: isStaged ? 'staged+gloo' : 'gloo',
    createGroup: (options) => {
      const hostOfEach = options.ranks.map((rank) => hostByRank.get(rank)!);
      if (new Set(hostOfEach).size === 1 && hosts.length > 1) {
        return job.createLocalGroup({ ...options, timeoutMs, isStaged });
      }
      const parts = { job, store, hosts: hostOfEach, keyPrefix: 'gloo', timeoutMs, isStaged };
      return createGlooGroup({ ...options, ...parts });
    },
    close: () => {},
  };
}

interface GlooGroupOptions extends GroupOptions {
  readonly job: NativeJob;
  /** The host index of each rank, in the order of `ranks`. Ranks with equal indices are on the same host. */
  readonly hosts: readonly number[];
  /** The store in which members publish their addresses. */
  readonly store: Store;
  /** A prefix of the store's keys, different for every attempt of a restarted job. */
  readonly keyPrefix: string;
  /**
   * How long an operation waits for other members, and the group's creation for all members, at most, in
   * milliseconds.
   */
  readonly timeoutMs: number;
  /** The name or IP address of a network interface. Default: see `resolveSocketAddress`. */
  readonly socketInterface?: string | undefined;
  /**
   * True for a group that also accepts tensors on device cuda, by copying them through host memory. Default:
   * false.
   */
  readonly isStaged?: boolean;
}

/** The commands that install Gloo and build the engine. */
const glooRemedy =
  'sudo apt-get install libgloo-dev, then npx mtl-comm-build (in a checkout npm run build:native)';

/** How many groups with the same name and ranks a job has created. All members have the same count. */
const numCreated = new WeakMap<NativeJob, Map<string, number>>();
/**
 * The interval, in milliseconds, at which a rank that waits for other ranks of a new group checks if the job
 * has failed.
 */
const pollMs = 250;

/**
 * Creates a group over Gloo. All members must call it. The ranks on one host first combine their tensors in
 * shared memory; for this, the ranks of each host must have joined (see `joinHost`). The group's `engine` is
 * then `gloo+local`, otherwise `gloo`.
 * @throws CommunicationError MTL_GLOO_LIBRARY if Gloo is missing; MTL_GLOO, which names a rank with an
 *   incompatible version of Gloo; MTL_TIMEOUT, which names a rank that does not arrive.
 */
export function createGlooGroup(options: GlooGroupOptions): NativeGroup {
  const { job, name, ranks, hosts, timeoutMs, socketInterface, isStaged = false } = options;
  checkRanks({ name, ranks }, job.rank);
  const address = resolveSocketAddress({ socketInterface, isOneHost: new Set(hosts).size === 1 });
  const opened = withRemedy(() =>
    addon().openGlooMesh(job.handle, { name, ranks, hosts, timeoutMs, address, library: glooLibrary() }),
  );
  try {
    const addresses = exchangeAddresses(options, opened.addresses);
    const { group, engine } = callNative(() =>
      addon().connectGlooGroup(job.handle, { mesh: opened.mesh, addresses, isStaged }),
    );
    return new NativeGroup({ name, ranks, engine, worldRank: job.rank, handle: group });
  } finally {
    // has no effect if the group already owns the mesh
    addon().closeGlooMesh(opened.mesh);
  }
}

function exchangeAddresses(options: GlooGroupOptions, own: Uint8Array): Uint8Array[] {
  const { job, name, ranks, store, keyPrefix, timeoutMs } = options;
  const counts = numCreated.get(job) ?? new Map<string, number>();
  numCreated.set(job, counts);
  const label = `${name} ${ranks.join(' ')}`;
  const number = counts.get(label) ?? 0;
  counts.set(label, number + 1);
  const formatKey = (rank: number): string => `${keyPrefix}/${label}/${number}/${rank}`;
  store.set(formatKey(job.rank), own);
  const deadline = performance.now() + timeoutMs;
  return ranks.map((rank) => {
    if (rank === job.rank) return own;
    const found = getUntil(deadline, { job, store, key: formatKey(rank) });
    if (found !== undefined) return found;
    const error = new CommunicationError(
      'MTL_TIMEOUT',
      `rank ${job.rank} waited ${timeoutMs / 1000} s for rank ${rank} to create group ${name} [${ranks.join(', ')}]`,
      { details: { rank, group: name, operation: 'createGroup', waitedMs: timeoutMs } },
    );
    job.abort(error);
    throw error;
  });
}

/**
 * Waits for the value of a key and returns it. Returns undefined at the deadline.
 * @throws the job's failure.
 */
function getUntil(
  deadline: number,
  { job, store, key }: { readonly job: NativeJob; readonly store: Store; readonly key: string },
): Uint8Array | undefined {
  for (;;) {
    const left = deadline - performance.now();
    try {
      return store.get(key, Math.max(0, Math.min(left, pollMs)));
    } catch (error) {
      if (!MtlError.isInstance(error) || error.code !== 'MTL_TIMEOUT') throw error;
    }
    const failure = job.failure;
    if (failure !== undefined) throw failure;
    if (left <= pollMs) return undefined;
  }
}

function withRemedy<T>(body: () => T): T {
  try {
    return callNative(body);
  } catch (error) {
    if (!MtlError.isInstance(error) || error.code !== 'MTL_GLOO_LIBRARY') throw error;
    throw new CommunicationError(error.code, error.message, {
      remedy: glooRemedy,
      exitCode: 2,
    });
  }
}

/**
 * Returns the path of the shim library that the user has set. An empty string selects the library next to the
 * addon.
 */
function glooLibrary(): string {
  return process.env.MTL_GLOO_LIBRARY ?? '';
}

/**
 * Returns the reason why the gloo engine cannot be used on this machine, for example because Debian's
 * optional libgloo is missing; undefined if it can be used.
 */
export function glooProblem(): string | undefined {
  return callNative(() => addon().glooProblem(glooLibrary()));
}

interface SocketAddressOptions {
  /**
   * The name of a network interface, or its IP address. Default: the environment variable
   * MTL_SOCKET_INTERFACE or GLOO_SOCKET_IFNAME, or the loopback interface if all ranks are on this host.
   */
  readonly socketInterface?: string | undefined;
  readonly isOneHost: boolean;
  /** The environment variables. Default: process.env. */
  readonly environment?: Readonly<Record<string, string | undefined>>;
  /** The network interfaces. Default: the interfaces of this machine. */
  readonly interfaces?: ReturnType<typeof networkInterfaces>;
}

/**
 * Returns the IP address that this process uses for its incoming and outgoing connections. The user chooses
 * the address. It is never derived from the host's name, which often resolves to loopback, where no other
 * host can connect.
 * @throws ConfigurationError MTL_SOCKET_INTERFACE if the user has not chosen an address, or if the chosen
 *   interface does not exist. The error lists the existing interfaces.
 */
export function resolveSocketAddress(options: SocketAddressOptions): string {
  const { isOneHost, environment = process.env, interfaces = networkInterfaces() } = options;
  const [source, chosen] = findChoice(options.socketInterface, environment);
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

function findChoice(
  option: string | undefined,
  environment: Readonly<Record<string, string | undefined>>,
): [string, string | undefined] {
  if (option !== undefined) return ['the socket interface', option];
  for (const name of ['MTL_SOCKET_INTERFACE', 'GLOO_SOCKET_IFNAME']) {
    if (environment[name]) return [name, environment[name]];
  }
  return ['', undefined];
}

// returns true if connecting to an address requires a scope (zone)
function isLinkLocal(address: string): boolean {
  return address.toLowerCase().startsWith('fe80:');
}
