import { ConfigurationError } from '@mtl/errors';
import type { Engine, EngineContext } from './engine.js';

/** Shared memory, for ranks of one host. @throws ConfigurationError MTL_ENGINE on several hosts. */
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
