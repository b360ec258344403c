import { CommunicationError } from '@mtl/errors';
import type { ProcessEnvironment } from '../environment/process-environment.js';
import { createGlooGroup, glooRemedy } from '../gloo/create-gloo-group.js';
import { glooProblem } from '../gloo/gloo-problem.js';
import { resolveSocketAddress } from '../gloo/resolve-socket-address.js';
import type { Engine, EngineContext } from './engine.js';

/**
 * What can be known before the ranks have come.
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

/** TCP between hosts, with shared memory inside each; groups of one host use shared memory alone. */
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
