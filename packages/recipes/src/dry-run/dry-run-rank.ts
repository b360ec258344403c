import { type MeshAxis, type MeshCoordinates, MetaWorld } from '@mtl/comm';
import { type PretrainingConfiguration, scheduleOfStep } from '@mtl/configuration';
import type { NumberedBatch } from '@mtl/data';
import { countedFlops, memoryStatistics, resetCountedFlops, resetPeakMemory, trimMemory } from '@mtl/kernels';
import type { TransformerConfiguration } from '@mtl/models';
import type { ParallelGroups } from '@mtl/optimizer';
import { modelFlops } from '@mtl/trainer';
import { dtypeOfPrecision } from '../models/dtype-of-precision.js';
import { flopsShapeOf } from '../models/flops-shape-of.js';
import type { ModelChunk } from '../models/model-chunk.js';
import { recipeOf } from '../models/recipe-of.js';
import { AssembledTraining } from '../training/assembled-training.js';
import { newTrainer } from '../training/new-trainer.js';
import { TrainingProcesses } from '../training/training-processes.js';

/**
 * Who a rank communicates with: the ranks along an axis, the other owner of a tied embedding, or all ranks.
 */
export type CommunicationScope = Exclude<MeshAxis, 'cp'> | 'embedding' | 'world';

/** What a training run takes on one rank. */
export interface DryRunRank {
  readonly rank: number;
  readonly coordinates: MeshCoordinates;
  /** Of this rank's part of the model. */
  readonly numParameters: number;
  /** Peak of the allocator, in bytes, from building the model to the end of the last step. */
  readonly peakBytes: number;
  /** Of one step, as operations count them. */
  readonly flops: number;
  /** Bytes that the rank sends in one step; absent where it communicates with none. */
  readonly sentBytes: Readonly<Partial<Record<CommunicationScope, number>>>;
}

export interface DryRunRankOptions {
  readonly rank: number;
  readonly model: TransformerConfiguration;
  /** Steps that are run; later ones find the cached memory of earlier ones. Default 1. */
  readonly numSteps?: number;
}

/**
 * Builds one rank of a training run on device `meta`, as the run builds it, and runs its first steps.
 * Nothing is computed or communicated; placeholder batches fill their sequences.
 *
 * @throws whatever building and running it throws
 */
export async function dryRunRank(
  run: PretrainingConfiguration,
  { rank, model, numSteps = 1 }: DryRunRankOptions,
): Promise<DryRunRank> {
  const configuration: PretrainingConfiguration = { ...run, parallel: { ...run.parallel, device: 'meta' } };
  const { training } = configuration;
  trimMemory('meta');
  const { bytesInUse } = memoryStatistics('meta');
  resetPeakMemory('meta');
  const processes = processesOf(configuration, rank);
  const recipe = recipeOf(configuration);
  const assembled: AssembledTraining<NumberedBatch, ModelChunk<NumberedBatch>> = new AssembledTraining({
    configuration,
    model,
    processes,
    dtype: dtypeOfPrecision[training.precision],
    recorder: undefined,
    onMessage: () => {},
    work: recipe.embeddingAndHeadCost(configuration, model),
    buildStages: recipe.buildStages,
    lossScale: configuration.optimizer.lossScale,
  });
  try {
    const batch = recipe.placeholderBatch(configuration);
    const trainer = newTrainer({
      configuration,
      assembled,
      batches: { next: async () => ({ done: false, value: batch }) },
      losses: recipe.losses(model),
      flopsPerSample: modelFlops(flopsShapeOf(configuration, model)),
      progress: undefined,
      profiler: undefined,
      onGradients: undefined,
    });
    const sentBefore = sentBytesOf(processes.groups);
    resetCountedFlops();
    let steps = 0;
    for await (const _ of trainer) if (++steps === numSteps) break;
    const sent = sentBytesOf(processes.groups);
    return {
      rank,
      coordinates: processes.coordinates,
      numParameters: assembled.part.parameters.reduce((sum, { size }) => sum + size, 0),
      peakBytes: memoryStatistics('meta').peakBytes - bytesInUse,
      flops: countedFlops() / steps,
      sentBytes: Object.fromEntries(
        [...sent].map(([scope, bytes]) => [scope, (bytes - sentBefore.get(scope)!) / steps]),
      ),
    };
  } finally {
    assembled.dispose();
  }
}

function processesOf(configuration: PretrainingConfiguration, rank: number): TrainingProcesses {
  const { parallel, training } = configuration;
  const { worldSize: size } = parallel;
  const { placement } = scheduleOfStep(parallel, training.numMicroBatches);
  const world = size === 1 ? undefined : new MetaWorld({ rank, size });
  return new TrainingProcesses({ world, parallel, ends: [placement[0]!, placement.at(-1)!] });
}

/** Bytes that the rank has sent so far. A group that serves two scopes counts for the first. */
export function sentBytesOf(groups: ParallelGroups): ReadonlyMap<CommunicationScope, number> {
  const seen = new Set<unknown>();
  const sent = new Map<CommunicationScope, number>();
  for (const scope of ['tp', 'dp', 'pp', 'embedding', 'world'] as const) {
    const group = groups[scope];
    if (group === undefined || seen.has(group)) continue;
    seen.add(group);
    sent.set(
      scope,
      Object.values(group.statistics()).reduce((sum, { sentBytes }) => sum + sentBytes, 0),
    );
  }
  return sent;
}
