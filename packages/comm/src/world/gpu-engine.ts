import { MtlError } from '@mtl/errors';
import { addon, callNative } from '../native/addon.js';
import { ncclInformation } from '../nccl/nccl-information.js';
import { chooseGpuEngine, type RankOnGpu } from './choose-gpu-engine.js';
import type { Engine, EngineContext, EngineFactory } from './engine.js';
import { glooEngine } from './gloo-engine.js';
import type { JobEngineName } from './job-engine-name.js';
import { localEngine } from './local-engine.js';
import { ncclEngine } from './nccl-engine.js';

/** What was asked for. */
export interface GpuEngineOptions {
  readonly asked: JobEngineName | undefined;
  /** How long to wait for what the other ranks say of their GPUs. */
  readonly joinTimeoutMs: number;
  /** Gets what was chosen and why. */
  readonly onMessage: (text: string) => void;
}

/**
 * Chooses between NCCL and an engine of the host once all ranks have said what their GPUs are, and starts it.
 */
export function gpuEngine(options: GpuEngineOptions): EngineFactory {
  return (context: EngineContext): Engine | Promise<Engine> => {
    const { asked } = options;
    const ranks = gatherDescriptions(describeOwn(asked), { ...context, timeoutMs: options.joinTimeoutMs });
    const { numNodes } = context.environment;
    const { name, sharesGpu, message } = chooseGpuEngine(ranks, { asked, numNodes });
    options.onMessage(message);
    const hostEngine = numNodes === 1 ? localEngine : glooEngine;
    if (name === 'nccl') return ncclEngine({ ...context, sharesGpu, host: hostEngine(context) });
    const staged = { ...context, isStaged: true };
    return name === 'gloo' ? glooEngine(staged) : localEngine(staged);
  };
}

/** NCCL is looked for only where it may be used. */
function describeOwn(asked: JobEngineName | undefined): RankOnGpu {
  const { uuid } = callNative(() => addon().gpuOfProcess());
  const { MTL_NCCL_SHARE_GPU, NCCL_HOSTID, NCCL_MULTI_RANK_GPU_ENABLE } = process.env;
  const isOn = (value: string | undefined): boolean => value !== undefined && value !== '' && value !== '0';
  const mayShareGpu =
    isOn(MTL_NCCL_SHARE_GPU) || isOn(NCCL_MULTI_RANK_GPU_ENABLE) || (NCCL_HOSTID ?? '') !== '';
  if (asked === 'local' || asked === 'gloo') return { uuid, mayShareGpu };
  try {
    return { uuid, mayShareGpu, ncclVersion: ncclInformation().version };
  } catch (error) {
    if (!MtlError.isInstance(error)) throw error;
    return { uuid, mayShareGpu, ncclProblem: error.message };
  }
}

/** What all ranks say, by rank. */
function gatherDescriptions(
  own: RankOnGpu,
  { store, environment, timeoutMs }: EngineContext,
): readonly RankOnGpu[] {
  const keyOf = (rank: number): string => `gpu/${rank}`;
  store.set(keyOf(environment.rank), new TextEncoder().encode(JSON.stringify(own)));
  return Array.from({ length: environment.worldSize }, (_, rank) =>
    JSON.parse(new TextDecoder().decode(store.get(keyOf(rank), timeoutMs))),
  );
}
