import { createGlooGroup } from '../gloo/create-gloo-group.js';
import type { Engine, EngineContext } from './engine.js';

/** TCP between hosts, with shared memory inside each; groups of one host use shared memory alone. */
export function glooEngine({ job, store, hosts, timeoutMs }: EngineContext): Engine {
  const hostOf = new Map(hosts.flatMap((ranks, host) => ranks.map((rank) => [rank, host] as const)));
  return {
    name: 'gloo',
    createGroup: (options) => {
      const hostOfEach = options.ranks.map((rank) => hostOf.get(rank)!);
      if (new Set(hostOfEach).size === 1 && hosts.length > 1) {
        return job.createLocalGroup({ ...options, timeoutMs });
      }
      return createGlooGroup({ ...options, job, store, hosts: hostOfEach, keyPrefix: 'gloo', timeoutMs });
    },
    close: () => {},
  };
}
