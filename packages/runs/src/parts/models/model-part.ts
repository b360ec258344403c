import type { Parameter, ParameterUnit } from '@mtl/autograd';
import type { ParallelConfiguration, ScheduleConfiguration, TrainingConfiguration } from '@mtl/configuration';
import {
  type ModelSharingOptions,
  modelSharing,
  type OptimizedLayout,
  optimizerSharing,
  scheduleOfStep,
} from '@mtl/configuration/internal';
import type { DType } from '@mtl/kernels';
import { hasValues } from '@mtl/kernels/internal';
import { reductionAxes } from '@mtl/layout';
import type {
  BuildStagesOptions,
  EmbeddingAndHeadCost,
  ExpertLoad,
  LayerFactoryOptions,
  Stages,
  TransformerConfiguration,
} from '@mtl/models';
import {
  GraphedStage,
  type GraphedStageOptions,
  Pipeline,
  type PipelineRecorder,
  type Stage,
} from '@mtl/pipeline';
import type { TrainingProcesses } from '../ranks/training-processes.js';
import { balanceAdvice, layersOfChunks } from './chunk-layers.js';

/** See `ExpertParallel`. */
export type AssumedRouting = NonNullable<ModelSharingOptions<object>['assumedRouting']>;

export interface ModelPartOptions<Model extends TransformerConfiguration, Chunk> {
  readonly configuration: {
    readonly parallel: ScheduleConfiguration &
      OptimizedLayout &
      Partial<ParallelConfiguration> &
      Pick<ParallelConfiguration, 'device' | 'layerLayout' | 'sequenceParallel' | 'cudaGraphs'>;
    readonly training: Pick<TrainingConfiguration, 'numMicroBatches' | 'seed' | 'recompute'>;
  };
  readonly model: Model;
  /** Costs of embedding and head, in layers. */
  readonly work: EmbeddingAndHeadCost;
  /** Further options of the layers, such as adapters. Default: none. */
  readonly layers?: LayerFactoryOptions;
  readonly buildStages: (options: BuildStagesOptions<Model>) => Stages<Chunk>;
  readonly processes: TrainingProcesses;
  readonly dtype: DType;
  /** Routing that a dry run assumes. */
  readonly assumedRouting?: AssumedRouting | undefined;
  readonly recorder: PipelineRecorder | undefined;
  readonly onMessage: (text: string) => void;
}

/** A rank's part of a model, and the pipeline that runs it with the parts of other ranks. */
export interface RankModel<Batch, Chunk> {
  readonly stages: ReadonlyMap<number, Chunk>;
  readonly parameters: readonly Parameter[];
  /** Parameters by the units that a stage uses together, see `Stages`. */
  readonly units: readonly ParameterUnit[];
  readonly pipeline: Pipeline<Batch>;
  /** The pipeline rank of each chunk. */
  readonly placement: readonly number[];
  /** Releases the memory that passes keep between steps; the caller owns the parameters. */
  dispose(): void;
}

/** Splits a model as the flags ask, and builds this rank's part. All ranks call it. */
export function modelPart<Model extends TransformerConfiguration, Batch, Chunk extends ModelChunk<Batch>>(
  options: ModelPartOptions<Model, Chunk>,
): RankModel<Batch, Chunk> {
  const { configuration, model, work, processes, dtype, recorder, onMessage } = options;
  const { parallel, training } = configuration;
  const { device } = parallel;
  const schedule = (numMicroBatches: number) => scheduleOfStep(parallel, numMicroBatches);
  const step = schedule(training.numMicroBatches);
  const { placement } = step;
  const layers = layersOfChunks(configuration, { model, work, numChunks: placement.length });
  // rank 0 prints all messages
  if (placement.length > 1 && processes.isFirst) {
    const counts = layers.map(({ start, end }) => end - start);
    onMessage(`layers of the pipeline's chunks: ${counts.join(', ')}`);
    const advice = balanceAdvice(configuration, { model, work, schedule: step });
    if (advice !== undefined) onMessage(advice);
  }
  const { groups } = processes;
  const { stages, parameters, units } = options.buildStages({
    model,
    ...options.layers,
    device,
    dtype,
    layers,
    placement,
    rank: processes.coordinates.pp,
    seed: training.seed,
    recomputation: training.recompute,
    ...modelSharing({ groups, parallel, assumedRouting: options.assumedRouting }),
  });
  const { numMicroBatches } = training;
  const { store, overlapGradientReduction, flagOfReduction } = optimizerSharing(parallel);
  // gradients are summed over processes that share sequences as well
  const hasCopies = reductionAxes.dense.some((axis) => groups[axis] !== undefined);
  const graphed = recordsPasses({
    cudaGraphs: parallel.cudaGraphs,
    numMicroBatches,
    reducedBy: hasCopies && overlapGradientReduction ? flagOfReduction : undefined,
    releasesValues: store.releasesValues,
    onMessage,
  })
    ? graphedStages(stages, {
        device,
        onMessage,
        onRefusal: listenForRefusal(processes, onMessage),
        ...(hasCopies ? amongReplicas(parameters, { overlaps: overlapGradientReduction }) : {}),
      })
    : undefined;
  const pipeline = new Pipeline<Batch>({
    schedule,
    dtype,
    device,
    recorder,
    group: groups.pp,
    // a dry run has one rank, which computes the parts of the others
    placement: hasValues(device) ? undefined : placement,
    stages: graphed ?? stages,
    replicas: parallel.sequenceParallel ? undefined : groups.tp,
  });
  const dispose = (): void => {
    for (const stage of stages.values()) stage.dispose();
    for (const stage of graphed?.values() ?? []) stage.dispose();
  };
  return { stages, parameters, units, pipeline, placement, dispose };
}

/**
 * Returns the options of passes for ranks with copies: gathers end when a parameter is read, and backward
 * starts reductions.
 */
function amongReplicas(
  parameters: readonly Parameter[],
  { overlaps }: { readonly overlaps: boolean },
): Pick<GraphedStageOptions<never>, 'beforePasses' | 'lastRunsEagerly'> {
  return {
    beforePasses: () => {
      for (const parameter of parameters) void parameter.data;
    },
    lastRunsEagerly: overlaps,
  };
}

function graphedStages<Batch>(
  stages: ReadonlyMap<number, Stage<Batch>>,
  options: Omit<GraphedStageOptions<Batch>, 'stage' | 'onRefusal'> & {
    readonly onRefusal: (text: string) => void;
  },
): ReadonlyMap<number, GraphedStage<Batch>> {
  // all chunks report the same
  const [onMessage, onRefusal] = [onceEach(options.onMessage), onceEach(options.onRefusal)];
  return new Map(
    [...stages].map(([chunk, stage]) => [
      chunk,
      new GraphedStage({ ...options, onMessage, onRefusal, stage }),
    ]),
  );
}

function onceEach(say: (text: string) => void): (text: string) => void {
  const said = new Set<string>();
  return (text) => {
    if (!said.has(text)) say(text);
    said.add(text);
  };
}

/**
 * Returns the listener for the reason why passes of this rank are not recorded. Other ranks do not know the
 * reason, but only rank 0 prints messages.
 */
function listenForRefusal(
  { groups, isFirst }: TrainingProcesses,
  onMessage: (text: string) => void,
): (text: string) => void {
  if (isFirst) return onMessage;
  return (text) => process.emitWarning(`rank ${groups.world?.rank}: ${text}`, { code: 'MTL_CUDA_GRAPHS' });
}

/** A chunk of a model on a rank. */
export interface ModelChunk<Batch> extends Stage<Batch> {
  readonly parameters: readonly Parameter[];
  /** The rows that the experts of the layers get; absent if the chunk has no experts. */
  readonly expertLoads?: readonly ExpertLoad[];
  /** Releases, between passes, the memory that passes share; the caller owns the parameters. */
  dispose(): void;
}

interface RecordsPassesOptions {
  /** True if a run asks for CUDA graphs. */
  readonly cudaGraphs: boolean;
  readonly numMicroBatches: number;
  /** The flag that starts reductions of gradients in passes; undefined where passes start none. */
  readonly reducedBy: string | undefined;
  /** True where parameters have their values only while a layer uses them. */
  readonly releasesValues: boolean;
  readonly onMessage: (text: string) => void;
}

/**
 * Decides if passes of a training run are recorded as CUDA graphs. If they were requested but are not
 * recorded, a message explains it: a recorded pass reads all parameters from their original addresses, and
 * the micro-batch that starts reductions runs outside of the graph.
 */
export function recordsPasses(options: RecordsPassesOptions): boolean {
  const { cudaGraphs, numMicroBatches, reducedBy, releasesValues, onMessage } = options;
  if (!cudaGraphs) return false;
  if (releasesValues) {
    onMessage('--cuda-graphs has no effect where parameters are sharded: their memory changes');
    return false;
  }
  if (numMicroBatches > 1 || reducedBy === undefined) return true;
  onMessage(`--cuda-graphs has no effect with --${reducedBy} and one micro-batch a step`);
  return false;
}
