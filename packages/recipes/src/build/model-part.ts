import type { Parameter } from '@mtl/autograd';
import type { NumberedBatch } from '@mtl/data';
import type { DType } from '@mtl/kernels';
import type { TransformerConfiguration } from '@mtl/models';
import { Pipeline, type PipelineRecorder } from '@mtl/pipeline';
import type { PretrainingConfiguration } from '../pretraining-configuration.js';
import { balanceAdvice } from './balance-advice.js';
import { layersOfChunks } from './layers-of-chunks.js';
import type { AnyModelRecipe, ModelPiece } from './model-recipe.js';
import { pipelineSchedule } from './pipeline-schedule.js';
import type { TrainingProcesses } from './training-processes.js';

export interface ModelPartOptions {
  readonly recipe: AnyModelRecipe;
  readonly configuration: PretrainingConfiguration;
  readonly model: TransformerConfiguration;
  readonly processes: TrainingProcesses;
  readonly dtype: DType;
  readonly recorder: PipelineRecorder | undefined;
  readonly onMessage: (text: string) => void;
}

/** A rank's part of a model, and how it runs with the others'. */
export interface ModelPart<Batch, Piece> {
  readonly stages: ReadonlyMap<number, Piece>;
  readonly parameters: readonly Parameter[];
  readonly pipeline: Pipeline<Batch>;
  /** The pipeline rank of each chunk. */
  readonly placement: readonly number[];
}

/** Cuts a model as the flags say, and builds what lies on this rank. All ranks call it. */
export function modelPart(options: ModelPartOptions): ModelPart<NumberedBatch, ModelPiece<NumberedBatch>> {
  const { recipe, configuration, model, processes, dtype, recorder, onMessage } = options;
  const { parallel, training } = configuration;
  const { device } = parallel;
  const schedule = (numMicroBatches: number) => pipelineSchedule(parallel, numMicroBatches);
  const step = schedule(training.numMicroBatches);
  const { placement } = step;
  const work = recipe.endsWork(configuration, model);
  const layers = layersOfChunks(configuration, { model, work, numChunks: placement.length });
  if (placement.length > 1) {
    const counts = layers.map(({ start, end }) => end - start);
    onMessage(`layers of the pipeline's chunks: ${counts.join(', ')}`);
    const advice = balanceAdvice(configuration, { model, work, schedule: step });
    if (advice !== undefined) onMessage(advice);
  }
  const { tp, pp } = processes.groups;
  const { stages, parameters } = recipe.buildStages({
    ...{ model, device, dtype, layers, placement },
    rank: processes.coordinates.pp,
    seed: training.seed,
    recomputation: training.recompute,
    tensorParallel: tp && { group: tp, sequenceParallel: parallel.sequenceParallel },
  });
  const pipeline = new Pipeline<NumberedBatch>({
    ...{ stages, schedule, dtype, device, recorder, group: pp },
    replicas: parallel.sequenceParallel ? undefined : tp,
  });
  return { stages, parameters, pipeline, placement };
}
