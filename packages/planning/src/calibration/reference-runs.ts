import {
  configure,
  type ModelKind,
  type PretrainingConfiguration,
  type RunOptions,
} from '@mtl/configuration';

/** A small training run whose operations are timed. */
export interface ReferenceRun {
  readonly options: RunOptions;
  /** The number of processes in the layout. Only the first process runs. */
  readonly worldSize: number;
  readonly numSteps: number;
}

interface Size {
  readonly hidden: number;
  readonly heads: number;
  readonly sequence: number;
  readonly batch: number;
  readonly vocabulary: number;
  readonly layers?: number;
  readonly steps: number;
}

/**
 * The sizes of models on CPUs. Their matmuls, attention and kernels include small operations, for which call
 * overhead dominates, and large operations, for which memory traffic dominates.
 */
const sizes: readonly Size[] = [
  { hidden: 64, heads: 2, sequence: 64, batch: 2, vocabulary: 1000, layers: 2, steps: 24 },
  { hidden: 96, heads: 3, sequence: 96, batch: 8, vocabulary: 4000, steps: 16 },
  { hidden: 128, heads: 4, sequence: 128, batch: 2, vocabulary: 2000, layers: 2, steps: 20 },
  { hidden: 192, heads: 3, sequence: 64, batch: 4, vocabulary: 8000, steps: 16 },
  { hidden: 256, heads: 4, sequence: 128, batch: 4, vocabulary: 4000, layers: 2, steps: 10 },
  { hidden: 256, heads: 8, sequence: 320, batch: 2, vocabulary: 1000, steps: 10 },
  { hidden: 384, heads: 6, sequence: 256, batch: 2, vocabulary: 4000, layers: 2, steps: 7 },
  { hidden: 512, heads: 8, sequence: 128, batch: 2, vocabulary: 16_000, steps: 6 },
  { hidden: 512, heads: 8, sequence: 512, batch: 2, vocabulary: 2000, steps: 5 },
  { hidden: 768, heads: 12, sequence: 192, batch: 1, vocabulary: 4000, steps: 6 },
  { hidden: 1024, heads: 8, sequence: 256, batch: 1, vocabulary: 4000, steps: 5 },
];

const bertSizes: readonly Size[] = [
  { hidden: 64, heads: 2, sequence: 64, batch: 2, vocabulary: 1000, steps: 16 },
  { hidden: 128, heads: 4, sequence: 128, batch: 4, vocabulary: 4000, steps: 14 },
  { hidden: 256, heads: 4, sequence: 128, batch: 8, vocabulary: 8000, steps: 8 },
  { hidden: 512, heads: 8, sequence: 256, batch: 2, vocabulary: 4000, steps: 6 },
];

/**
 * The sizes of models on GPUs, where a few thousand tokens use all multiprocessors. They are the sizes of
 * published models, with one layer each and long sequences.
 */
const gpuSizes: readonly Size[] = [
  { hidden: 1024, heads: 16, sequence: 1024, batch: 8, vocabulary: 50_304, steps: 11 },
  { hidden: 768, heads: 12, sequence: 1024, batch: 4, vocabulary: 50_304, layers: 2, steps: 11 },
  { hidden: 768, heads: 12, sequence: 1024, batch: 16, vocabulary: 50_304, steps: 11 },
  { hidden: 1024, heads: 8, sequence: 8192, batch: 1, vocabulary: 8000, steps: 11 },
  { hidden: 2048, heads: 16, sequence: 2048, batch: 2, vocabulary: 50_304, steps: 11 },
  { hidden: 2048, heads: 32, sequence: 1024, batch: 8, vocabulary: 50_304, steps: 11 },
  { hidden: 2560, heads: 32, sequence: 2048, batch: 2, vocabulary: 50_304, steps: 11 },
  { hidden: 2560, heads: 20, sequence: 2048, batch: 4, vocabulary: 32_000, steps: 11 },
  { hidden: 4096, heads: 32, sequence: 2048, batch: 2, vocabulary: 32_000, steps: 11 },
  { hidden: 3072, heads: 24, sequence: 2048, batch: 1, vocabulary: 50_304, steps: 11 },
  { hidden: 4096, heads: 32, sequence: 4096, batch: 2, vocabulary: 32_000, steps: 11 },
  { hidden: 5120, heads: 40, sequence: 2048, batch: 1, vocabulary: 32_000, steps: 11 },
];

/** The model size for the emulation, which runs every thread of a kernel as a fiber on a CPU. */
const smallestSize: Size = { hidden: 32, heads: 2, sequence: 16, batch: 1, vocabulary: 64, steps: 7 };

const llama = {
  normalization: 'RMSNorm',
  swiglu: true,
  positionEmbeddingType: 'rope',
  disableBiasLinear: true,
  untieEmbeddingsAndOutputWeights: true,
} as const;
/** A mixture of experts with all options of expert layers. */
const experts = {
  numExperts: 8,
  moeRouterTopk: 2,
  moeAuxLossCoeff: [1e-2],
  moeZLossCoeff: 1e-3,
  moeSharedExpertGate: true,
  moeExpertCapacityFactor: 4,
};
const withoutDropout = { attentionDropout: 0, hiddenDropout: 0 };
/** Options for measuring the operations of tensor parallelism on one of two ranks. */
const tensorParallel = { layout: { tensorModelParallelSize: 2 } };

/** The extent of a calibration. */
export interface ReferenceRunsOptions {
  /** The device to calibrate. Default: `cpu`. */
  readonly device?: 'cpu' | 'cuda';
  /**
   * `quick`: models of one size with all operations; the times for further sizes are extrapolated.
   * `smallest`: like `quick`, but with a size small enough for the emulation, and only for device `cuda`.
   * Default: `all`.
   */
  readonly extent?: 'all' | 'quick' | 'smallest';
}

/** Returns the runs of a calibration, in the order of execution. */
export function referenceRuns({
  device = 'cpu',
  extent = 'all',
}: ReferenceRunsOptions = {}): readonly ReferenceRun[] {
  return device === 'cpu' ? referenceRunsOnCpu(extent !== 'all') : referenceRunsOnGpu(extent);
}

const smallTensors = [64, 1024, 8192];

/** Returns the sizes in bytes of the complete float32 tensors with which a calibration times collectives. */
export function chooseCollectiveBytes({ device, extent }: ReferenceRunsOptions): readonly number[] {
  if (extent === 'smallest') return smallTensors;
  const all = [...smallTensors, 65_536, 524_288, 4_194_304, 33_554_432];
  // links between GPUs reach their full rate only with larger tensors
  return device === 'cuda' ? [...all, 268_435_456] : all;
}

function referenceRunsOnCpu(isQuick: boolean): readonly ReferenceRun[] {
  const ofGpt = sizes.filter(({ hidden }) => !isQuick || hidden === 64);
  const ofBert = bertSizes.filter(({ hidden }) => !isQuick || hidden === 64);
  const some = ofGpt.filter((_, index) => index % 4 === 0);
  return [
    ...ofGpt.map((size) => referenceRun('gpt', size)),
    ...some.map((size) => referenceRun('gpt', size, { model: withoutDropout })),
    ...some.map((size) => referenceRun('gpt', size, { model: { ...llama, ...withoutDropout } })),
    ...some.map((size) => referenceRun('gpt', size, { training: { bf16: true } })),
    ...some.map((size) => referenceRun('gpt', size, withExperts(size))),
    ...some.map((size) => referenceRun('gpt', size, { ...withExperts(size), training: { bf16: true } })),
    ...some.map((size) => referenceRun('gpt', size, tensorParallel, 2)),
    ...ofBert.map((size) => referenceRun('bert', size)),
    ...ofBert.slice(0, 2).map((size) => referenceRun('bert', size, tensorParallel, 2)),
  ];
}

/** Returns the runs for GPUs. They use bfloat16, the usual dtype on GPUs, except for one size in float32. */
function referenceRunsOnGpu(extent: 'all' | 'quick' | 'smallest'): readonly ReferenceRun[] {
  const training = { bf16: true };
  const ofGpt = extent === 'all' ? gpuSizes : extent === 'quick' ? gpuSizes.slice(0, 1) : [smallestSize];
  const some = ofGpt.filter((_, index) => index % 4 === 0);
  const least = ofGpt.slice(0, 1);
  return [
    ...ofGpt.map((size) => referenceRun('gpt', size, { model: withoutDropout, training })),
    ...some.map((size) => referenceRun('gpt', size, { training })),
    ...some.map((size) => referenceRun('gpt', size, { model: { ...llama, ...withoutDropout }, training })),
    ...some.map((size) => referenceRun('gpt', size, { ...withExperts(size), training })),
    ...some.map((size) => referenceRun('gpt', size, { ...tensorParallel, training }, 2)),
    ...some.slice(0, 2).map((size) => referenceRun('bert', size, { training })),
    ...least.map((size) => referenceRun('gpt', size)),
  ];
}

/**
 * Returns options for experts with half the hidden size of the model's MLP, as in published models with
 * fine-grained experts.
 */
const withExperts = ({ hidden }: Size) => ({
  model: {
    ...llama,
    ...withoutDropout,
    ...experts,
    moeFfnHiddenSize: hidden / 2,
    moeSharedExpertIntermediateSize: hidden / 2,
  },
});

function referenceRun(
  kind: ModelKind,
  { hidden, heads, sequence, batch, vocabulary, layers = 1, steps }: Size,
  { model, training, layout }: Pick<RunOptions, 'model' | 'training' | 'layout'> = {},
  worldSize = 1,
): ReferenceRun {
  // two ranks need an even number of heads
  const numHeads = worldSize === 1 || heads % 2 === 0 ? heads : heads + 1;
  return {
    worldSize,
    numSteps: steps,
    options: {
      preset: 'none',
      model: {
        kind,
        numLayers: layers,
        hiddenSize: hidden,
        numAttentionHeads: numHeads,
        maxPositionEmbeddings: sequence,
        ...model,
      },
      data: {
        sequenceLength: sequence,
        tokenizerType: 'NullTokenizer',
        vocabSize: vocabulary,
        dataPath: ['bundled'],
      },
      training: { microBatchSize: batch, globalBatchSize: 2 * batch, trainIterations: steps, ...training },
      optimizer: { maxLearningRate: 1e-4 },
      layout,
    },
  };
}

/**
 * Returns the configuration of a reference run on `device`.
 *
 * @throws ConfigurationError
 */
export const configurationOfReference = (
  { options, worldSize }: ReferenceRun,
  device: 'cpu' | 'cuda',
): PretrainingConfiguration =>
  configure({ ...options, layout: { ...options.layout, device } }, { worldSize });
