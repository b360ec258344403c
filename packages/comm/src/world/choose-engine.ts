import { ConfigurationError } from '@mtl/errors';
import type { ProcessEnvironment } from '../environment/process-environment.js';
import type { EngineName } from '../process-group.js';
import type { EngineFactory } from './engine.js';
import { checkGloo, glooEngine } from './gloo-engine.js';
import { localEngine } from './local-engine.js';

/** Engines that processes of a job can choose. */
export type JobEngineName = Exclude<EngineName, 'memory' | 'single'>;

/** Every engine of this version. A new one is added here. */
const factories: Partial<Record<JobEngineName, EngineFactory>> = {
  local: localEngine,
  gloo: glooEngine,
};

/**
 * The engine to use: the one that is asked for, else shared memory on one host and Gloo between hosts.
 *
 * @throws ConfigurationError MTL_ENGINE for an engine that this version does not have, and what `checkGloo` throws
 */
export function chooseEngine(
  asked: JobEngineName | undefined,
  { numNodes }: Pick<ProcessEnvironment, 'numNodes'>,
): EngineFactory {
  const name = asked ?? (numNodes === 1 ? 'local' : 'gloo');
  const factory = factories[name];
  if (name === 'gloo') checkGloo({ numNodes });
  if (factory !== undefined) return factory;
  throw new ConfigurationError('MTL_ENGINE', `engine ${name}: this version does not have it`, {
    expected: Object.keys(factories).join(' or '),
  });
}
