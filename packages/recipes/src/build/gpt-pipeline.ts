import type { Parameter } from '@mtl/autograd';
import type { DType } from '@mtl/kernels';
import {
  buildGptStages,
  type GptModelConfiguration,
  type GptPieces,
  type GptStage,
  type StageBatch,
} from '@mtl/models';
import { Pipeline, type PipelineRecorder } from '@mtl/pipeline';
import type { GptConfiguration } from '../gpt-configuration.js';
import { balanceAdvice } from './balance-advice.js';
import { layersOfChunks } from './layers-of-chunks.js';
import { pipelineSchedule } from './pipeline-schedule.js';
import type { TrainingProcesses } from './training-processes.js';

export interface GptPipelineOptions {
  readonly configuration: GptConfiguration;
  readonly model: GptModelConfiguration;
  readonly processes: TrainingProcesses;
  readonly dtype: DType;
  readonly recorder: PipelineRecorder | undefined;
  readonly onMessage: (text: string) => void;
}

/** A rank's part of a model, and how it runs with the others'. */
export interface GptPipeline {
  readonly stages: ReadonlyMap<number, GptStage>;
  readonly parameters: readonly Parameter[];
  readonly pipeline: Pipeline<StageBatch>;
  /** What generation needs. */
  readonly whole: GptStage | GptPieces;
}

/** Cuts a model as the flags say, and builds what lies on this rank. All ranks call it. */
export function gptPipeline(options: GptPipelineOptions): GptPipeline {
  const { configuration, model, processes, dtype, recorder, onMessage } = options;
  const { parallel, training } = configuration;
  const { device } = parallel;
  const schedule = (numMicroBatches: number) => pipelineSchedule(parallel, numMicroBatches);
  const step = schedule(training.numMicroBatches);
  const { placement } = step;
  const layers = layersOfChunks(configuration, { model, numChunks: placement.length });
  if (placement.length > 1) {
    const counts = layers.map(({ start, end }) => end - start);
    onMessage(`layers of the pipeline's chunks: ${counts.join(', ')}`);
    const advice = balanceAdvice(configuration, { model, schedule: step });
    if (advice !== undefined) onMessage(advice);
  }
  const { tp, pp } = processes.groups;
  const { stages, parameters } = buildGptStages({
    ...{ model, device, dtype, layers, placement },
    rank: processes.coordinates.pp,
    seed: training.seed,
    recomputation: training.recompute,
    tensorParallel: tp && { group: tp, sequenceParallel: parallel.sequenceParallel },
  });
  const pipeline = new Pipeline<StageBatch>({
    ...{ stages, schedule, dtype, device, recorder, group: pp },
    replicas: parallel.sequenceParallel ? undefined : tp,
  });
  const whole = pp === undefined ? stages.get(0)! : { stages, placement, group: pp };
  return { stages, parameters, pipeline, whole };
}
