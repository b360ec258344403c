import type { Parameter } from '@mtl/autograd';
import type { DType } from '@mtl/kernels';
import type { BuildStagesOptions, EndsWork, Stages, TransformerConfiguration } from '@mtl/models';
import { Pipeline, type PipelineRecorder } from '@mtl/pipeline';
import type { ParallelConfiguration, TrainingConfiguration } from '../gpt-configuration.js';
import { balanceAdvice } from './balance-advice.js';
import { layersOfChunks } from './layers-of-chunks.js';
import type { ModelPiece } from './model-recipe.js';
import { pipelineSchedule, type ScheduleConfiguration } from './pipeline-schedule.js';
import type { TrainingProcesses } from './training-processes.js';

export interface ModelPartOptions<Model extends TransformerConfiguration, Piece> {
  readonly configuration: {
    readonly parallel: ScheduleConfiguration &
      Pick<ParallelConfiguration, 'device' | 'layerLayout' | 'sequenceParallel'>;
    readonly training: Pick<TrainingConfiguration, 'numMicroBatches' | 'seed' | 'recompute'>;
  };
  readonly model: Model;
  /** Of embedding and head, in layers. */
  readonly work: EndsWork;
  readonly buildStages: (options: BuildStagesOptions<Model>) => Stages<Piece>;
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
export function modelPart<Model extends TransformerConfiguration, Batch, Piece extends ModelPiece<Batch>>(
  options: ModelPartOptions<Model, Piece>,
): ModelPart<Batch, Piece> {
  const { configuration, model, work, processes, dtype, recorder, onMessage } = options;
  const { parallel, training } = configuration;
  const { device } = parallel;
  const schedule = (numMicroBatches: number) => pipelineSchedule(parallel, numMicroBatches);
  const step = schedule(training.numMicroBatches);
  const { placement } = step;
  const layers = layersOfChunks(configuration, { model, work, numChunks: placement.length });
  if (placement.length > 1) {
    const counts = layers.map(({ start, end }) => end - start);
    onMessage(`layers of the pipeline's chunks: ${counts.join(', ')}`);
    const advice = balanceAdvice(configuration, { model, work, schedule: step });
    if (advice !== undefined) onMessage(advice);
  }
  const { tp, pp } = processes.groups;
  const { stages, parameters } = options.buildStages({
    ...{ model, device, dtype, layers, placement },
    rank: processes.coordinates.pp,
    seed: training.seed,
    recomputation: training.recompute,
    tensorParallel: tp && { group: tp, sequenceParallel: parallel.sequenceParallel },
  });
  const pipeline = new Pipeline<Batch>({
    ...{ stages, schedule, dtype, device, recorder, group: pp },
    replicas: parallel.sequenceParallel ? undefined : tp,
  });
  return { stages, parameters, pipeline, placement };
}
