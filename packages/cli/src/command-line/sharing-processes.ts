import { sharingFlags } from '@mtl/configuration/internal';
import { ConfigurationError, nearestDivisors } from '@mtl/errors';
import type { Device } from '@mtl/kernels';
import { TrainingProcesses } from '@mtl/run-parts';
import { joinProcesses } from '@mtl/run-parts/internal';
import { addFlags } from './flag-options.js';
import type { MtlCommand } from './new-command.js';

/** Values of the options of `addSharingFlags`. */
export interface SharingFlagValues {
  readonly tensorModelParallelSize: number;
  /** Default 1: sequences are whole. */
  readonly contextParallelSize?: number | undefined;
  readonly pipelineModelParallelSize: number;
  /** Default 1: all have all experts. */
  readonly expertModelParallelSize?: number | undefined;
  /** The device of the model. */
  readonly device: Device;
}

/** This process among those that share a model. */
export interface SharingProcesses {
  /** Undefined for a process alone. */
  readonly processes: TrainingProcesses | undefined;
  /** Processes on this host. */
  readonly numLocal: number;
  /** True for the process that speaks for all. */
  readonly isFirst: boolean;
}

export const alone: SharingProcesses = { processes: undefined, numLocal: 1, isFirst: true };

/** Adds the flags that say how the processes of `mtl run` share a model. */
export const addSharingFlags = (command: MtlCommand): MtlCommand =>
  addFlags(command, sharingFlags, { filled: true });

/**
 * Runs a task as one of the processes that a launcher has started, or alone.
 *
 * @throws ConfigurationError `MTL_WORLD_SIZE` unless there are as many as the flags say;
 *   `MTL_EXPERT_PARALLEL_SIZE` for experts that cannot be divided over those that share a layer
 */
export async function withSharingProcesses(
  flags: SharingFlagValues,
  task: (sharing: SharingProcesses) => Promise<void>,
): Promise<void> {
  const { tensorModelParallelSize, pipelineModelParallelSize, contextParallelSize = 1, device } = flags;
  const expertModelParallelSize = checkedExpertSize(flags);
  const { world, local } = await joinProcesses({
    variables: process.env,
    timeoutMinutes: undefined,
    device,
    onMessage: (text) => process.stderr.write(`${text}\n`),
  });
  const size = world?.size ?? 1;
  const asked = tensorModelParallelSize * contextParallelSize * pipelineModelParallelSize;
  const context = contextParallelSize > 1 ? ` x context ${contextParallelSize}` : '';
  try {
    if (size !== asked) {
      throw new ConfigurationError(
        'MTL_WORLD_SIZE',
        `${size} process(es) for a model that ${asked} share: tensor ${tensorModelParallelSize}${context} x pipeline ${pipelineModelParallelSize}`,
        {
          expected: `${asked} processes`,
          remedy: `start as many with npx mtl run --nproc-per-node ${asked}, or choose sizes whose product is ${size}`,
        },
      );
    }
    const parallel = {
      tensorModelParallelSize,
      ...(contextParallelSize > 1 && { contextParallelSize }),
      pipelineModelParallelSize,
      dataParallelSize: 1,
      expertModelParallelSize,
      // experts are whole, whether they have biases, which cannot be split, or not
      expertTensorParallelSize: 1,
    };
    const processes = world && new TrainingProcesses({ world, parallel });
    await task({ processes, numLocal: local.size, isFirst: processes?.isFirst ?? true });
  } catch (error) {
    // the other processes end with this message instead of waiting for this one
    world?.abort(error as Error);
    throw error;
  }
  world?.close();
}

/** The processes that share a layer must divide evenly into those that have different experts. */
function checkedExpertSize({
  tensorModelParallelSize,
  expertModelParallelSize = 1,
}: SharingFlagValues): number {
  if (tensorModelParallelSize % expertModelParallelSize === 0) return expertModelParallelSize;
  const nearest = nearestDivisors(tensorModelParallelSize, expertModelParallelSize);
  throw new ConfigurationError(
    'MTL_EXPERT_PARALLEL_SIZE',
    `--expert-model-parallel-size ${expertModelParallelSize} does not divide --tensor-model-parallel-size ${tensorModelParallelSize}`,
    {
      expected: nearest.join(' or '),
      remedy: `pass --expert-model-parallel-size ${nearest.at(0)}, or a larger --tensor-model-parallel-size`,
      details: { size: expertModelParallelSize, nearest },
    },
  );
}
