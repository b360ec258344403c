import { ConfigurationError } from '@mtl/errors';
import type { JobEngineName } from './job-engine-name.js';

/** What a rank says of its GPU before the engine is chosen. */
export interface RankOnGpu {
  /** The GPU, the same text in all processes that use it. */
  readonly uuid: string;
  /** Of NCCL, where it can be used. */
  readonly ncclVersion?: string;
  /** Why it cannot. */
  readonly ncclProblem?: string;
  /** Whether this rank was told that NCCL may share its GPU with another rank. */
  readonly mayShareGpu: boolean;
}

export interface GpuEngineChoice {
  readonly name: JobEngineName;
  /** Whether two ranks are on one GPU. */
  readonly sharesGpu: boolean;
  /** What was chosen and why, for the user who starts the job. */
  readonly message: string;
}

const sharingRemedy =
  'give every rank a GPU of its own; or MTL_NCCL_SHARE_GPU=1 lets NCCL try (each rank claims a host of its own and talks ' +
  'through sockets, which NVIDIA does not support); or leave out --distributed-backend nccl';

/**
 * The engine for tensors of GPUs: the one that is asked for, else NCCL where it serves every rank, else the
 * engine of the host, through whose memory tensors then go. All ranks choose alike, from what all have said.
 *
 * @throws ConfigurationError MTL_NCCL when NCCL is asked for and cannot serve, with the rank and the reason
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

/** The first two ranks on one GPU. */
function sharedGpu(ranks: readonly RankOnGpu[]): readonly [number, number] | undefined {
  const first = new Map<string, number>();
  for (const [rank, { uuid }] of ranks.entries()) {
    const other = first.get(uuid);
    if (other !== undefined) return [other, rank];
    first.set(uuid, rank);
  }
  return undefined;
}
