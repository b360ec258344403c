import { ConfigurationError, MtlError } from '@mtl/errors';
import type { Device } from '@mtl/kernels';
import type { ProcessEnvironment } from '../environment/process-environment.js';
import { addon, callNative } from '../native/addon.js';
import type { Engine, EngineContext, EngineFactory, JobEngineName } from './engine.js';
import { checkGloo, glooEngine } from './gloo-engine.js';
import { localEngine } from './local-engine.js';
import { ncclEngine, ncclInformation } from './nccl-engine.js';

interface GpuEngineOptions {
  readonly asked: JobEngineName | undefined;
  /** How long to wait for the other ranks' descriptions of their GPUs, in milliseconds. */
  readonly joinTimeoutMs: number;
  /** Receives a message that states the chosen engine and the reason for the choice. */
  readonly onMessage: (text: string) => void;
}

interface ChooseEngineOptions extends GpuEngineOptions {
  /** The device of the tensors. */
  readonly device: Device;
  readonly environment: Pick<ProcessEnvironment, 'numNodes'>;
}

/**
 * Returns the engine to use. The first choice is the engine that the caller names. Otherwise, the engine for
 * tensors in host memory is shared memory on a single host, and Gloo across hosts. For tensors on GPUs,
 * `chooseGpuEngine` chooses after all ranks have joined.
 *
 * @throws ConfigurationError MTL_ENGINE for NCCL without GPUs; also the errors of `checkGloo`
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

/**
 * Returns a factory that chooses between NCCL and a host engine after all ranks have described their GPUs.
 */
function gpuEngine(options: GpuEngineOptions): EngineFactory {
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

/** Returns the description of this rank's GPU. Looks for NCCL only if it may be used. */
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

/** Publishes this rank's description of its GPU, and returns the descriptions of all ranks in rank order. */
function gatherDescriptions(
  own: RankOnGpu,
  { store, environment, timeoutMs }: EngineContext,
): readonly RankOnGpu[] {
  const formatKey = (rank: number): string => `gpu/${rank}`;
  store.set(formatKey(environment.rank), new TextEncoder().encode(JSON.stringify(own)));
  return Array.from({ length: environment.worldSize }, (_, rank) =>
    JSON.parse(new TextDecoder().decode(store.get(formatKey(rank), timeoutMs))),
  );
}

/** A rank's description of its GPU, published before the engine is chosen. */
export interface RankOnGpu {
  /** An identifier of the GPU, equal in all processes that use this GPU. */
  readonly uuid: string;
  /** The installed NCCL version; undefined if this rank cannot use NCCL. */
  readonly ncclVersion?: string;
  /** The reason why NCCL cannot be used. */
  readonly ncclProblem?: string;
  /** True if this rank's environment variables allow NCCL to share its GPU with another rank. */
  readonly mayShareGpu: boolean;
}

interface GpuEngineChoice {
  readonly name: JobEngineName;
  /** True if two ranks use the same GPU. */
  readonly sharesGpu: boolean;
  /** A message for the user that states the chosen engine and the reason for the choice. */
  readonly message: string;
}

const sharingRemedy =
  'give every rank a GPU of its own; or MTL_NCCL_SHARE_GPU=1 lets NCCL try (each rank claims a host of its own and talks ' +
  'through sockets, which NVIDIA does not support); or leave out --distributed-backend nccl';

/**
 * Returns the engine for tensors on GPUs. The result is the engine that the caller names, if any; otherwise
 * NCCL, if every rank can use NCCL; otherwise the host engine, which copies the tensors through host memory.
 * All ranks make the same choice, because they have the same descriptions.
 *
 * @throws ConfigurationError MTL_NCCL if NCCL is named and a rank cannot use it. The message contains the
 *   rank and the reason
 */
export function chooseGpuEngine(
  ranks: readonly RankOnGpu[],
  { asked, numNodes }: { readonly asked: JobEngineName | undefined; readonly numNodes: number },
): GpuEngineChoice {
  const shared = sharedGpu(ranks);
  const sharesGpu = shared !== undefined;
  const host = asked === 'local' || asked === 'gloo' ? asked : numNodes === 1 ? 'local' : 'gloo';
  const staged = (reason: string): GpuEngineChoice => ({
    name: host,
    sharesGpu,
    message: `tensors of GPUs go through the host's memory (${host}): ${reason}`,
  });
  if (asked === 'local' || asked === 'gloo') return staged(`--distributed-backend ${asked}`);
  const without = ranks.findIndex(({ ncclProblem }) => ncclProblem !== undefined);
  if (without >= 0) {
    const problem = `rank ${without} cannot use NCCL: ${ranks[without]!.ncclProblem}`;
    if (asked !== 'nccl') return staged(problem);
    throw new ConfigurationError('MTL_NCCL', problem, {
      remedy:
        'pip install nvidia-nccl-cu13, or name the directory of libnccl.so.2 in MTL_CUDA_LIBS; mtl doctor shows what was found',
    });
  }
  const versions = new Set(ranks.map(({ ncclVersion }) => ncclVersion));
  if (versions.size > 1) {
    const problem = `ranks have different versions of NCCL: ${[...versions].join(', ')}`;
    if (asked !== 'nccl') return staged(problem);
    throw new ConfigurationError('MTL_NCCL', problem, { expected: 'the same version on all hosts' });
  }
  if (shared !== undefined && !ranks.every(({ mayShareGpu }) => mayShareGpu)) {
    const problem = `ranks ${shared.join(' and ')} share one GPU, which NCCL refuses`;
    if (asked !== 'nccl') return staged(problem);
    throw new ConfigurationError('MTL_NCCL', problem, { remedy: sharingRemedy });
  }
  const sharing = sharesGpu ? ', several ranks on one GPU as they were told' : '';
  return {
    name: 'nccl',
    sharesGpu,
    message: `tensors of GPUs go over NCCL ${ranks[0]!.ncclVersion}${sharing}`,
  };
}

/** Returns the first two ranks that use the same GPU; undefined if every rank uses a different GPU. */
function sharedGpu(ranks: readonly RankOnGpu[]): readonly [number, number] | undefined {
  const first = new Map<string, number>();
  for (const [rank, { uuid }] of ranks.entries()) {
    const other = first.get(uuid);
    if (other !== undefined) return [other, rank];
    first.set(uuid, rank);
  }
  return undefined;
}
