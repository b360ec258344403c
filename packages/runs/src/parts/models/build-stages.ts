import type { Parameter, ParameterUnit } from '@mtl/autograd';
import type {
  CheckpointConfiguration,
  OptimizerConfiguration,
  ParallelConfiguration,
  PretrainingConfiguration,
  TrainingConfiguration,
} from '@mtl/configuration';
import { type OptimizedLayout, optimizerSharing } from '@mtl/configuration/strategies';
import { chooseMetaDevice, type Device, type DType, hostInformation } from '@mtl/kernels';
import type { NumberedBatch } from '@mtl/layout';
import type { TransformerConfiguration } from '@mtl/models';
import {
  Adamw,
  createStores,
  ModelOptimizer,
  type ModelOptimizerOptions,
  Muon,
  muonWith,
} from '@mtl/optimizer';
import type { TrainingProcesses } from '../ranks/training-processes.js';
import { findRecipe } from './find-recipe.js';
import { type ModelChunk, type ModelPartOptions, modelPart, type RankModel } from './model-part.js';

/** The part of a run's model that is on one rank. */
export type RankStages = RankModel<NumberedBatch, ModelChunk<NumberedBatch>>;

/** The properties of a run that determine this rank's part of the model. */
interface PartedRun extends Pick<ModelPartOptions<TransformerConfiguration, never>, 'onMessage'> {
  readonly configuration: PretrainingConfiguration;
  readonly processes: TrainingProcesses;
}

/**
 * Returns this rank's stages of a run's model, and the pipeline that runs them together with the stages of
 * other ranks. All ranks must call this function.
 */
export function buildStages(
  { configuration, processes, onMessage }: PartedRun,
  parts: Pick<ModelPartOptions<TransformerConfiguration, never>, 'model' | 'recorder' | 'assumedRouting'>,
): RankStages {
  const { adapters, embeddingAndHeadCost, buildStages } = findRecipe(configuration);
  return modelPart({
    configuration,
    processes,
    onMessage,
    buildStages,
    layers: adapters.makeLayerOptions(configuration, parts.model),
    ...parts,
    dtype: dtypeOfPrecision[configuration.training.precision],
    work: embeddingAndHeadCost(configuration, parts.model),
  });
}

/** Allocates a rank's parameters with initial values, and returns them with their optimizer. */
export function createOptimizer(
  { configuration, processes }: Omit<PartedRun, 'onMessage'>,
  { part }: { readonly part: RankStages },
): ModelOptimizer {
  const { device } = configuration.parallel;
  const dtype = dtypeOfPrecision[configuration.training.precision];
  return optimizerOfPart(part, { configuration, processes, device, dtype });
}

/** The properties of a configuration that determine the optimizer. */
interface OptimizedConfiguration {
  readonly optimizer: Pick<
    OptimizerConfiguration,
    | 'adamBeta1'
    | 'adamBeta2'
    | 'adamEpsilon'
    | 'muon'
    | 'statePrecision'
    | 'decoupledLearningRate'
    | 'weightDecay'
    | 'clipGrad'
  >;
  /**
   * The setting that selects the learning-rate schedule of the checkpoint or of the configuration. Default:
   * the configuration's schedule.
   */
  readonly checkpoint?: Pick<CheckpointConfiguration, 'schedule'>;
  readonly parallel: Pick<ParallelConfiguration, 'cudaGraphs'> & OptimizedLayout;
  readonly training: Pick<TrainingConfiguration, 'seed'>;
}

interface TrainingOptimizerOptions {
  readonly configuration: OptimizedConfiguration;
  readonly parameters: readonly Parameter[];
  /** The parameters of each model chunk on this rank, by chunk number. */
  readonly chunks: ReadonlyMap<number, readonly Parameter[]>;
  /** The parameters, grouped by the units that the model uses at the same time. */
  readonly units: readonly ParameterUnit[];
  readonly processes: TrainingProcesses;
  readonly device: Device;
  readonly dtype: DType;
  /** False if every weight is loaded from a checkpoint before its first use. Default: true. */
  readonly initializes?: boolean;
}

/** Calls `trainingOptimizer` for this rank's stages. */
export function optimizerOfPart<Batch>(
  part: Pick<RankModel<Batch, ModelChunk<Batch>>, 'parameters' | 'units' | 'stages'>,
  options: Pick<TrainingOptimizerOptions, 'configuration' | 'processes' | 'device' | 'dtype'>,
): ModelOptimizer {
  const { parameters, units, stages } = part;
  const chunks = new Map([...stages].map(([chunk, stage]) => [chunk, stage.parameters]));
  return trainingOptimizer({ ...options, parameters, units, chunks });
}

/** Allocates the parameters with their initial values, and returns the optimizer that the flags describe. */
export function trainingOptimizer(options: TrainingOptimizerOptions): ModelOptimizer {
  const { parameters, chunks, units, processes, device, dtype, initializes = true } = options;
  const { optimizer, parallel, training, checkpoint } = options.configuration;
  const mayDecouple = optimizer.decoupledLearningRate !== undefined || checkpoint?.schedule === 'checkpoint';
  const { groups } = processes;
  const { store, overlapGradientReduction, overlapParameterGather } = optimizerSharing(parallel);
  const stores = createStores(parameters, {
    kind: store,
    device,
    dtype,
    groups,
    chunks,
    units,
    storesRemainders: optimizer.statePrecision?.storeParamRemainders,
    gradientDtype: dtypeOfPrecision[optimizer.statePrecision?.mainGradsDtype ?? 'fp32'],
    seed: initializes ? training.seed : undefined,
  });
  return new ModelOptimizer(stores, {
    optimizer: updateRule(optimizer, { device, dtype }),
    isDecoupled: mayDecouple ? ({ isVocabularyTable }) => isVocabularyTable : undefined,
    weightDecay: optimizer.weightDecay,
    clipGrad: optimizer.clipGrad,
    groups,
    overlapGradientReduction,
    overlapParameterGather,
    // done only on GPUs: on CPUs, a matmul that overwrites its output may sum in a different order than a
    // matmul that adds to its output, so all gradient matmuls add
    writesFirstGradients: chooseMetaDevice(device) === 'meta-cuda' && !parallel.cudaGraphs,
  });
}

function updateRule(
  { adamBeta1, adamBeta2, adamEpsilon, muon, statePrecision }: OptimizedConfiguration['optimizer'],
  model: { readonly device: Device; readonly dtype: DType },
): ModelOptimizerOptions['optimizer'] {
  const adamw = new Adamw({
    beta1: adamBeta1,
    beta2: adamBeta2,
    epsilon: adamEpsilon,
    expAvgDtype: dtypeOfPrecision[statePrecision?.expAvgDtype ?? 'fp32'],
    expAvgSqDtype: dtypeOfPrecision[statePrecision?.expAvgSqDtype ?? 'fp32'],
  });
  if (muon === undefined) return adamw;
  const dtype = muon.dtype ?? newtonSchulzDtype(model);
  return muonWith({ muon: new Muon({ ...muon, dtype }), auxiliary: adamw });
}

/**
 * Returns the dtype of Muon's Newton-Schulz iteration. For 16-bit models, it is bfloat16 if the hardware
 * supports bfloat16 matmuls (GPUs, CPUs with AVX-512 bf16). A float32 model keeps float32, so that results
 * with different layouts can be compared.
 */
function newtonSchulzDtype({ device, dtype }: { readonly device: Device; readonly dtype: DType }) {
  if (dtype === 'float32') return 'float32';
  const isGpu = device === 'cuda' || device === 'meta-cuda';
  return isGpu || hostInformation().multipliesBfloat16 ? 'bfloat16' : 'float32';
}

/** The dtype in which a model computes, by the name of the precision. */
export const dtypeOfPrecision = {
  fp32: 'float32',
  bf16: 'bfloat16',
  fp16: 'float16',
} as const satisfies Readonly<Record<'fp32' | 'bf16' | 'fp16', DType>>;
