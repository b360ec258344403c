import { readFileSync } from 'node:fs';
import type { Parameter } from '@mtl/autograd';
import { type Device, setNumThreads } from '@mtl/kernels';
import {
  type GptModelConfiguration,
  GptStage,
  numLossTokens,
  sequenceFirst,
  type TokenBatch,
} from '@mtl/models';
import {
  Adamw,
  LearningRateSchedule,
  LossScaler,
  ModelOptimizer,
  Muon,
  type MuonOptions,
  muonWith,
  NumMicroBatches,
  ReplicatedStore,
} from '@mtl/optimizer';
import { Pipeline } from '@mtl/pipeline';
import { oneStage } from '@mtl/pipeline/schedules';
import { Trainer } from '@mtl/trainer';

/** Results of a training run of the recipe, one number a step. */
export interface Curve {
  losses: number[];
  gradientNorms: number[];
}

/**
 * Curves of PyTorch, made by tooling/fixtures/gpt_parity.py: on a CPU, or, in the file that MTL_PARITY_CURVES
 * names, on the same GPU.
 */
export const fixture = JSON.parse(
  readFileSync(
    process.env.MTL_PARITY_CURVES ?? new URL('../fixtures/gpt-parity.json', import.meta.url),
    'utf8',
  ),
) as {
  recipe: Record<string, number>;
  float32: Curve;
  bfloat16: Curve;
};
export const recipe = fixture.recipe as Record<
  | 'numLayers'
  | 'hiddenSize'
  | 'numHeads'
  | 'sequenceLength'
  | 'vocabularySize'
  | 'batchSize'
  | 'steps'
  | 'learningRate'
  | 'warmup'
  | 'beta1'
  | 'beta2'
  | 'epsilon'
  | 'weightDecay'
  | 'clip',
  number
>;

export const model: GptModelConfiguration = {
  numLayers: recipe.numLayers,
  hiddenSize: recipe.hiddenSize,
  ffnHiddenSize: 4 * recipe.hiddenSize,
  numAttentionHeads: recipe.numHeads,
  maxPositionEmbeddings: recipe.sequenceLength,
  vocabularySize: recipe.vocabularySize,
  // the padded vocabulary rows must not change the results: PyTorch's model has none
  makeVocabularySizeDivisibleBy: 128,
  tieEmbeddings: true,
  layerNormEpsilon: 1e-5,
  geluKind: 'tanh',
  hiddenDropout: 0,
  attentionDropout: 0,
  initMethodStd: 0.02,
};

/** Returns the hash of a number, as tooling/fixtures/gpt_parity.py computes it. */
function mixed(value: number): number {
  let x = value >>> 0;
  x = Math.imul(x ^ (x >>> 16), 0x7feb352d) >>> 0;
  x = Math.imul(x ^ (x >>> 15), 0x846ca68b) >>> 0;
  return (x ^ (x >>> 16)) >>> 0;
}

/**
 * Returns the initial values of a parameter, which the script draws in the order of its list of parameters.
 */
function initialValues({ name }: Parameter, size: number, seed: number): Float32Array {
  const isGain = name.endsWith('layernorm.weight');
  const isMatrix = name.endsWith('weight') && !name.includes('layernorm');
  const scale = Math.fround(isGain ? 0.1 : isMatrix ? 0.08 : 0.02);
  return Float32Array.from({ length: size }, (_, index) => {
    const unit = Math.fround(Math.fround((mixed(index + seed * 2 ** 20) >>> 8) / 2 ** 23) - 1);
    return Math.fround((isGain ? 1 : 0) + Math.fround(scale * unit));
  });
}

export function makeBatch(step: number): TokenBatch {
  const { batchSize, sequenceLength, vocabularySize } = recipe;
  const tokenAt = (b: number, s: number): number => {
    const sample = step * batchSize + b;
    const noise = mixed(sample * 64 + s + 2 ** 28);
    if (noise % 7 === 0) return Math.floor(noise / 7) % vocabularySize;
    return ((mixed(sample) % vocabularySize) + ((mixed(sample + 2 ** 24) % 3) + 1) * s) % vocabularySize;
  };
  const values = (shift: number): Int32Array =>
    Int32Array.from({ length: batchSize * sequenceLength }, (_, index) =>
      tokenAt(Math.floor(index / sequenceLength), (index % sequenceLength) + shift),
    );
  return sequenceFirst({
    batchSize,
    sequenceLength,
    tokens: values(0),
    labels: values(1),
    lossMask: new Float32Array(batchSize * sequenceLength).fill(1),
    positionIds: Int32Array.from(
      { length: batchSize * sequenceLength },
      (_, index) => index % sequenceLength,
    ),
    keyStart: undefined,
    sampleNumbers: Float64Array.from({ length: batchSize }, (_, b) => step * batchSize + b),
  });
}

async function* batches(): AsyncGenerator<TokenBatch> {
  for (let step = 0; ; step++) yield makeBatch(step);
}

/** A model of the recipe with its initial weights, and its optimizer. */
export interface Run {
  stage: GptStage;
  optimizer: ModelOptimizer;
  dispose(): void;
}

export interface Where {
  readonly dtype: 'float32' | 'bfloat16';
  /** The device to train on. Default: cpu. */
  readonly device?: Device;
  /** Dropout of the hidden states and of the attention. Default: 0, as in PyTorch's runs. */
  readonly dropout?: number;
  /** Number of steps. Default: the recipe's. */
  readonly steps?: number;
  /**
   * Options of Muon, which updates the matrices of layers; AdamW updates everything else. Default: AdamW
   * updates everything.
   */
  readonly muon?: MuonOptions;
}

export function build({ dtype, device = 'cpu', dropout = 0, muon }: Where): Run {
  const stage = new GptStage({
    device,
    dtype,
    seed: 1,
    model: { ...model, hiddenDropout: dropout, attentionDropout: dropout },
  });
  const store = new ReplicatedStore(stage.parameters, { device, dtype });
  store.ranges.forEach((range, index) => {
    const view = store.master(range);
    const rows = range.parameter.name.includes('word_embeddings')
      ? recipe.vocabularySize * recipe.hiddenSize
      : view.size;
    const values = new Float32Array(view.size);
    values.set(initialValues(range.parameter, rows, index + 1));
    view.write(values);
    view.dispose();
  });
  const { beta1, beta2, epsilon, weightDecay, clip } = recipe;
  const adamw = new Adamw({ beta1, beta2, epsilon });
  const optimizer = new ModelOptimizer([store], {
    optimizer: muon === undefined ? adamw : muonWith({ muon: new Muon(muon), auxiliary: adamw }),
    weightDecay,
    clipGrad: clip,
  });
  optimizer.refreshModel();
  return {
    stage,
    optimizer,
    dispose: () => optimizer.dispose(),
  };
}

export type Tamper = (run: Run) => void;

/** Trains, and returns the curve of the run; `tamper` runs before each step's update. */
export async function train(where: Where, tamper?: Tamper): Promise<Curve> {
  const { dtype, device = 'cpu' } = where;
  // one thread: in a model of 32 channels, more threads would only wait for each other
  setNumThreads(1);
  const run = build(where);
  const schedule = new LearningRateSchedule({
    maxLearningRate: recipe.learningRate,
    decayStyle: 'constant',
    warmupSteps: recipe.warmup,
    decaySteps: recipe.steps,
  });
  const trainer = new Trainer({
    pipeline: new Pipeline({
      stages: new Map([[0, run.stage]]),
      schedule: oneStage,
      dtype,
      device,
    }),
    optimizer: run.optimizer,
    learningRate: ({ numUpdates }) => schedule.at(numUpdates),
    lossScaler: new LossScaler({ kind: 'constant', scale: 1 }),
    microBatches: new NumMicroBatches({
      globalBatchSize: recipe.batchSize,
      microBatchSize: recipe.batchSize,
      numShares: 1,
    }),
    device,
    batches: batches(),
    losses: [{ name: 'lm_loss', per: 'token', count: numLossTokens }],
    sequenceLength: recipe.sequenceLength,
    flopsPerSample: 1,
    trainIterations: where.steps ?? recipe.steps,
    extensions: tamper === undefined ? [] : [{ name: 'tamper', onGradients: () => tamper(run) }],
  });
  const curve: Curve = { losses: [], gradientNorms: [] };
  for await (const { loss, gradNorm } of trainer) {
    curve.losses.push(loss);
    curve.gradientNorms.push(gradNorm);
  }
  run.dispose();
  return curve;
}

const largest = (values: number[]): number => values.reduce((most, value) => Math.max(most, value), 0);
/** Returns the largest difference of the losses of two runs. */
export const lossDistance = (a: Curve, b: Curve): number =>
  largest(a.losses.map((loss, step) => Math.abs(loss - b.losses[step]!)));
/** Returns the largest relative difference of the gradient norms of two runs. */
export const normDistance = (a: Curve, b: Curve): number =>
  largest(a.gradientNorms.map((norm, step) => Math.abs(norm / b.gradientNorms[step]! - 1)));

// Bounds of the design document, section 5: rounding alone was measured at 2e-7 (loss) and 2e-6 (norm).
export const bounds = { loss: 1e-5, norm: 1e-4, gradient: 1e-5, bfloat16Loss: 2e-3 };
