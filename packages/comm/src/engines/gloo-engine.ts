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
 * Checks everything about Gloo that can be known before the ranks have come.
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
 * Returns the engine `gloo`: TCP between hosts, with shared memory inside each; groups of one host use shared
 * memory alone.
 */
export function glooEngine({ job, store, hosts, timeoutMs, isStaged }: EngineContext): Engine {
  const hostOf = new Map(hosts.flatMap((ranks, host) => ranks.map((rank) => [rank, host] as const)));
  return {
    name: isStaged ? 'staged+gloo' : 'gloo',
    createGroup: (options) => {
      const hostOfEach = options.ranks.map((rank) => hostOf.get(rank)!);
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
  /** The host of every rank of `ranks`, in their order: equal numbers for ranks of one host. */
  readonly hosts: readonly number[];
  /** The store in which members leave their addresses for each other. */
  readonly store: Store;
  /** Begins the store's keys: another one for every attempt of a job that was restarted. */
  readonly keyPrefix: string;
  /** The time that an operation waits for the others, and this call for the members. */
  readonly timeoutMs: number;
  /** Name or IP address of a network interface; see `resolveSocketAddress` for what holds without it. */
  readonly socketInterface?: string | undefined;
  /**
   * True for a group that also takes tensors on device cuda, which then go through memory of the host.
   * Default false.
   */
  readonly isStaged?: boolean;
}

/** The commands that install Gloo and build the engine. */
const glooRemedy =
  'sudo apt-get install libgloo-dev, then npx mtl-comm-build (in a checkout npm run build:native)';

/** The number of groups of one name and ranks that a job has created: members count alike. */
const numCreated = new WeakMap<NativeJob, Map<string, number>>();
/**
 * The longest time until the failure of the job is seen while this rank waits for another to create the
 * group.
 */
const pollMs = 250;

/**
 * Creates a group over Gloo. All members call it. Hosts that hold several of its ranks combine them in shared
 * memory first, for which the ranks of each host must have joined (`joinHost`): the group's `engine` is then
 * `gloo+local`, else `gloo`.
 * @throws CommunicationError MTL_GLOO_LIBRARY where Gloo is missing, MTL_GLOO naming a rank whose version of
 *   Gloo does not fit, MTL_TIMEOUT naming a rank that does not come.
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
    // nothing to close when the group has taken it
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
  const keyOf = (rank: number): string => `${keyPrefix}/${label}/${number}/${rank}`;
  store.set(keyOf(job.rank), own);
  const deadline = performance.now() + timeoutMs;
  return ranks.map((rank) => {
    if (rank === job.rank) return own;
    const found = getUntil(deadline, { job, store, key: keyOf(rank) });
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
 * Returns the value of a key; undefined after the deadline.
 * @throws the failure of the job.
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

/** Returns the path of the shim library where a user gives it; empty where it is next to the addon. */
function glooLibrary(): string {
  return process.env.MTL_GLOO_LIBRARY ?? '';
}

/**
 * Returns the reason why the gloo engine cannot be used on this machine (Debian's libgloo is optional), or
 * undefined.
 */
export function glooProblem(): string | undefined {
  return callNative(() => addon().glooProblem(glooLibrary()));
}

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
