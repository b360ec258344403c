import type { Parameter, ParameterUnit } from '@mtl/autograd';
import type { ParallelConfiguration, ScheduleConfiguration, TrainingConfiguration } from '@mtl/configuration';
import {
  type ModelSharingOptions,
  modelSharing,
  type OptimizedLayout,
  optimizerSharing,
  scheduleOfStep,
} from '@mtl/configuration/strategies';
import { type DType, hasValues } from '@mtl/kernels';
import { reductionAxes } from '@mtl/layout';
import type {
  BuildStagesOptions,
  EmbeddingAndHeadCost,
  ExpertLoad,
  HeadScores,
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

/** The routing of tokens to experts that a dry run assumes (see `ExpertParallel`). */
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
  /** Costs of embedding and head, in multiples of a layer's cost. */
  readonly work: EmbeddingAndHeadCost;
  /** Further options for layers, such as adapters. Default: none. */
  readonly layers?: LayerFactoryOptions;
  readonly buildStages: (options: BuildStagesOptions<Model>) => Stages<Chunk>;
  readonly processes: TrainingProcesses;
  readonly dtype: DType;
  /** Routing that a dry run assumes. */
  readonly assumedRouting?: AssumedRouting | undefined;
  readonly recorder: PipelineRecorder | undefined;
  readonly onMessage: (text: string) => void;
}

/**
 * The model's stages on one rank, and the pipeline that runs them together with the stages of other ranks.
 */
export interface RankModel<Batch, Chunk> {
  readonly stages: ReadonlyMap<number, Chunk>;
  readonly parameters: readonly Parameter[];
  /** The parameters, grouped by the units that a stage uses at the same time (see `Stages`). */
  readonly units: readonly ParameterUnit[];
  readonly pipeline: Pipeline<Batch>;
  /** The pipeline rank of each model chunk. */
  readonly placement: readonly number[];
  /**
   * Frees the memory that is kept between steps for forward and backward passes. The caller still owns the
   * parameters.
   */
  dispose(): void;
}

/**
 * Splits a model into stages as the flags request, and builds this rank's stages. All ranks must call this
 * function.
 */
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
  // gradients are also summed over context-parallel ranks, which share sequences
  const hasCopies = reductionAxes.dense.some((axis) => groups[axis] !== undefined);
  const graphed = recordsPasses({
    cudaGraphs: parallel.cudaGraphs,
    numMicroBatches,
    reducedBy: hasCopies && overlapGradientReduction ? flagOfReduction : undefined,
    releasesMemory: store.divides.includes('gradients'),
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
    // in a dry run, a single rank computes the stages of all ranks
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
 * Returns the options of passes on ranks whose parameters have replicas. A pass waits until its parameters
 * are gathered, and the backward pass starts reductions.
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
  // all chunks report the same messages, so each message is printed only once
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
 * Returns a function to call with the reason why passes of this rank are not recorded. It sends the reason to
 * rank 0, because only rank 0 prints messages.
 */
function listenForRefusal(
  { groups, isFirst }: TrainingProcesses,
  onMessage: (text: string) => void,
): (text: string) => void {
  if (isFirst) return onMessage;
  return (text) => process.emitWarning(`rank ${groups.world?.rank}: ${text}`, { code: 'MTL_CUDA_GRAPHS' });
}

/**
 * A chunk of a model on a rank: the rank's whole pipeline stage or, in a virtual pipeline, one of several
 * chunks.
 */
export interface ModelChunk<Batch> extends Stage<Batch> {
  readonly parameters: readonly Parameter[];
  /** How many rows each layer's experts receive; absent if the chunk has no experts. */
  readonly expertLoads?: readonly ExpertLoad[];
  /** The largest attention scores of each layer's heads. */
  readonly headScores?: readonly HeadScores[];
  /**
   * Frees the memory that passes share. Must be called between passes. The caller still owns the parameters.
   */
  dispose(): void;
}

interface RecordsPassesOptions {
  /** True if the run requests CUDA graphs. */
  readonly cudaGraphs: boolean;
  readonly numMicroBatches: number;
  /** The flag that makes passes start reductions of gradients; undefined if passes start no reductions. */
  readonly reducedBy: string | undefined;
  /** True if parameters or their gradients have memory only while a layer uses them. */
  readonly releasesMemory: boolean;
  readonly onMessage: (text: string) => void;
}

/**
 * Decides whether a training run's passes are recorded as CUDA graphs. If the user requests CUDA graphs but
 * passes are not recorded, a message explains why. A recorded pass uses parameters and gradients at fixed
 * addresses, so both must keep their memory. The micro-batch that starts reductions always runs without a
 * graph.
 */
export function recordsPasses(options: RecordsPassesOptions): boolean {
  const { cudaGraphs, numMicroBatches, reducedBy, releasesMemory, onMessage } = options;
  if (!cudaGraphs) return false;
  if (releasesMemory) {
    onMessage('--cuda-graphs has no effect where gradients are sharded: their memory changes');
    return false;
  }
  if (numMicroBatches > 1 || reducedBy === undefined) return true;
  onMessage(`--cuda-graphs has no effect with --${reducedBy} and one micro-batch a step`);
  return false;
}
