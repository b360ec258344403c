import type { Parameter } from '@mtl/autograd';
import type { NumberedBatch } from '@mtl/data';
import type { DType } from '@mtl/kernels';
import type { TransformerConfiguration } from '@mtl/models';
import {
  GraphedStage,
  type GraphedStageOptions,
  Pipeline,
  type PipelineRecorder,
  type Stage,
} from '@mtl/pipeline';
import type { GptConfiguration } from '../gpt-configuration.js';
import { balanceAdvice } from './balance-advice.js';
import { layersOfChunks } from './layers-of-chunks.js';
import type { AnyModelRecipe, ModelPiece } from './model-recipe.js';
import { pipelineSchedule } from './pipeline-schedule.js';
import type { TrainingProcesses } from './training-processes.js';

export interface ModelPartOptions {
  readonly recipe: AnyModelRecipe;
  readonly configuration: GptConfiguration;
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
  /** Gives back what passes hold between steps; parameters are their owner's. */
  dispose(): void;
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
  const { tp, pp, dp } = processes.groups;
  const { stages, parameters } = recipe.buildStages({
    ...{ model, device, dtype, layers, placement },
    rank: processes.coordinates.pp,
    seed: training.seed,
    recomputation: training.recompute,
    tensorParallel: tp && { group: tp, sequenceParallel: parallel.sequenceParallel },
  });
  const graphed = parallel.cudaGraphs
    ? graphedStages(stages, {
        ...{ device, onMessage },
        ...(dp === undefined ? {} : amongReplicas(parameters, { overlaps: parallel.overlapGradReduce })),
      })
    : undefined;
  const pipeline = new Pipeline<NumberedBatch>({
    ...{ schedule, dtype, device, recorder, group: pp },
    stages: graphed ?? stages,
    replicas: parallel.sequenceParallel ? undefined : tp,
  });
  const dispose = (): void => {
    for (const stage of graphed?.values() ?? []) stage.dispose();
  };
  return { stages, parameters, pipeline, placement, dispose };
}

/** What data parallelism does beside passes: gathers that end when a parameter is read, reductions that backward starts. */
function amongReplicas(
  parameters: readonly Parameter[],
  { overlaps }: { readonly overlaps: boolean },
): Pick<GraphedStageOptions<NumberedBatch>, 'beforePasses' | 'lastRunsByItself'> {
  return {
    beforePasses: () => {
      for (const parameter of parameters) void parameter.data;
    },
    lastRunsByItself: overlaps,
  };
}

function graphedStages(
  stages: ReadonlyMap<number, Stage<NumberedBatch>>,
  options: Omit<GraphedStageOptions<NumberedBatch>, 'stage'>,
): ReadonlyMap<number, GraphedStage<NumberedBatch>> {
  return new Map([...stages].map(([chunk, stage]) => [chunk, new GraphedStage({ ...options, stage })]));
}
