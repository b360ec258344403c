import { ConfigurationError } from '@mtl/errors';
import type { Device } from '@mtl/kernels';
import type { ProcessEnvironment } from '../environment/process-environment.js';
import type { EngineFactory } from './engine.js';
import { checkGloo, glooEngine } from './gloo-engine.js';
import { type GpuEngineOptions, gpuEngine } from './gpu-engine.js';
import { localEngine } from './local-engine.js';

export interface ChooseEngineOptions extends GpuEngineOptions {
  /** Where tensors live. */
  readonly device: Device;
  readonly environment: Pick<ProcessEnvironment, 'numNodes'>;
}

/**
 * The engine to use: the one that is asked for; else for tensors of the host shared memory on one host and
 * Gloo between hosts, and for tensors of GPUs what `chooseGpuEngine` says once all ranks are there.
 *
 * @throws ConfigurationError MTL_ENGINE for NCCL without GPUs, and what `checkGloo` throws
 */
export function chooseEngine(options: ChooseEngineOptions): EngineFactory {
  const { asked, device, environment } = options;
  const { numNodes } = environment;
  if (asked === 'gloo' || (numNodes > 1 && asked !== 'local')) checkGloo({ numNodes });
  if (device === 'cuda') return gpuEngine(options);
  if (asked === 'nccl') {
    throw new ConfigurationError('MTL_ENGINE', 'NCCL moves memory of GPUs, and tensors live on device cpu', {
      expected: '--device cuda, or local or gloo (--distributed-backend)',
    });
  }
  return asked === 'gloo' || (asked === undefined && numNodes > 1) ? glooEngine : localEngine;
}
