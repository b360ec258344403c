import { ConfigurationError } from '@mtl/errors';
import type { NativeJob } from '../native/native-job.js';
import type { Store } from '../store/store.js';
import type { Engine, EngineContext } from './engine.js';

/**
 * Returns the engine `local`: shared memory, for ranks of one host.
 * @throws ConfigurationError MTL_ENGINE if the job has several hosts.
 */
export function localEngine({ job, hosts, timeoutMs, isStaged }: EngineContext): Engine {
  if (hosts.length > 1) {
    throw new ConfigurationError('MTL_ENGINE', `engine local on ${hosts.length} hosts`, {
      expected: 'gloo or nccl: shared memory ends at the host',
    });
  }
  return {
    name: isStaged ? 'staged+local' : 'local',
    createGroup: (options) => job.createLocalGroup({ ...options, timeoutMs, isStaged }),
    close: () => {},
  };
}

interface JoinHostOptions {
  readonly job: NativeJob;
  /** Global ranks of the processes on this host, ascending. */
  readonly ranks: readonly number[];
  /** The store in which the host's first rank publishes the address of the shared board. */
  readonly store: Store;
  /**
   * The store's key for the board's address. It differs between hosts and between attempts of a restarted
   * job.
   */
  readonly key: string;
  readonly timeoutMs: number;
  /**
   * How long this process may continue after the job has failed, in milliseconds. Afterwards the watchdog
   * ends the process.
   */
  readonly graceMs: number;
}

/** Connects the ranks of a host. Each rank must call this function. */
export function joinHost({ job, ranks, store, key, timeoutMs, graceMs }: JoinHostOptions): void {
  const deadline = performance.now() + timeoutMs;
  if (job.rank === ranks[0]) {
    store.set(key, new TextEncoder().encode(job.createHostBoard(ranks)));
  } else {
    job.openHostBoard(ranks, new TextDecoder().decode(store.get(key, timeoutMs)));
  }
  job.joinHost({ timeoutMs: Math.max(0, deadline - performance.now()), graceMs });
}
