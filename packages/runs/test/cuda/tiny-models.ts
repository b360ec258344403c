import type { Parameter } from '@mtl/autograd';
import type { DType } from '@mtl/kernels';
import type { MaskedTokenBatch, TaskTokenBatch } from '@mtl/layout';
import {
  type BertModelConfiguration,
  type BertStage,
  type BertTaskStage,
  buildBertStages,
  buildBertTaskStages,
  buildGptStages,
  type GptStage,
  type MaskedStageBatch,
  numLossTokens,
  type StageBatch,
  type Stages,
} from '@mtl/models';
import type { Stage } from '@mtl/pipeline';
import type { LossKind } from '@mtl/trainer';
import { expertLosses } from '../../src/parts/models/gpt-recipe.js';

// S sequence, B micro-batch.
const lengthOfGpt = 16;
/**
 * Number of positions of a BERT's samples. Attention computes tiles of 64 positions, so samples have one or
 * two tiles.
 */
const lengthOfBert = 72;
const microBatchSize = 2;
const vocabularySize = 50;
const numLayers = 2;

/** Parts of a model in one process, and their training data. */
export interface TinyModel<Batch, Chunk extends Stage<Batch>> {
  readonly numLayers: number;
  readonly sequenceLength: number;
  readonly microBatchSize: number;
  readonly losses: readonly LossKind<Batch>[];
  /** Builds all chunks, each with the same number of layers. */
  build(options: {
    readonly device: 'cpu' | 'cuda';
    readonly dtype: DType;
    readonly numChunks: number;
  }): Stages<Chunk & { readonly parameters: readonly Parameter[] }>;
  /**
   * Returns a micro-batch by its number. `length`: number of positions, including padding, at most the
   * model's.
   */
  makeBatch(number: number, length: number): Batch;
}

const shape = {
  numLayers,
  hiddenSize: 32,
  ffnHiddenSize: 128,
  numAttentionHeads: 2,
  vocabularySize,
  makeVocabularySizeDivisibleBy: 16,
  hiddenDropout: 0.1,
  attentionDropout: 0.1,
  layerNormEpsilon: 1e-5,
  geluKind: 'tanh' as const,
  initMethodStd: 0.02,
};

function cut({ device, dtype, numChunks }: Parameters<TinyModel<never, never>['build']>[0]) {
  const each = numLayers / numChunks;
  const layers = Array.from({ length: numChunks }, (_, chunk) => ({
    start: chunk * each,
    end: (chunk + 1) * each,
  }));
  return { device, dtype, layers, placement: layers.map(() => 0), rank: 0, seed: 3 };
}

const token = (number: number, index: number): number => (number * 7 + index * 3) % vocabularySize;
const sampleNumbers = (number: number): Float64Array =>
  Float64Array.from({ length: microBatchSize }, (_, b) => number * microBatchSize + b);

const gpt = { ...shape, tieEmbeddings: true, maxPositionEmbeddings: lengthOfGpt };

export const tinyGpt: TinyModel<StageBatch, GptStage> = {
  numLayers,
  microBatchSize,
  sequenceLength: lengthOfGpt,
  losses: [{ name: 'lm_loss', per: 'token', count: numLossTokens }],
  build: (options) => buildGptStages({ ...cut(options), model: gpt }),
  makeBatch: (number, length) => {
    const size = microBatchSize * length;
    return {
      batchSize: microBatchSize,
      sequenceLength: length,
      tokens: Int32Array.from({ length: size }, (_, index) => token(number, index)),
      labels: Int32Array.from({ length: size }, (_, index) => token(number, index + 1)),
      // a few tokens do not count: other tokens in each micro-batch
      lossMask: Float32Array.from({ length: size }, (_, index) => ((index + number) % 11 === 0 ? 0 : 1)),
      positionIds: Int32Array.from({ length: size }, (_, index) => Math.floor(index / microBatchSize)),
      sampleNumbers: sampleNumbers(number),
      keyStart: undefined,
    };
  },
};

/** A GPT without dropout: its matmuls add the residuals. */
export const tinyGptWithoutDropout: typeof tinyGpt = {
  ...tinyGpt,
  build: (options) =>
    buildGptStages({ ...cut(options), model: { ...gpt, hiddenDropout: 0, attentionDropout: 0 } }),
};

const llama = {
  ...shape,
  ffnHiddenSize: 80,
  numAttentionHeads: 4,
  groupQueryAttention: true,
  numQueryGroups: 2,
  positionEmbeddingType: 'rope',
  maxPositionEmbeddings: lengthOfGpt,
  normalization: 'RMSNorm',
  swiglu: true,
  addBiasLinear: false,
  tieEmbeddings: false,
} as const;

export const tinyLlama: TinyModel<StageBatch, GptStage> = {
  ...tinyGpt,
  build: (options) => buildGptStages({ ...cut(options), model: llama }),
};

const sparse = {
  ...llama,
  numExperts: 4,
  moeFfnHiddenSize: 24,
  moeRouterLoadBalancingType: ['seq_aux_loss', 'aux_loss'],
  moeAuxLossCoeff: [0.01, 0.01],
  moeZLossCoeff: 0.001,
  moeSharedExpertIntermediateSize: 16,
  moeSharedExpertGate: true,
} as const;

/** A GPT with experts and shared experts in both layers. */
export const tinyExperts: TinyModel<StageBatch, GptStage> = {
  ...tinyGpt,
  losses: [...tinyGpt.losses, ...expertLosses(sparse)],
  build: (options) => buildGptStages({ ...cut(options), model: sparse }),
};

/** Low-rank adapters of a Llama, of parts of its fused projections and of all others. */
export const tinyAdapters: TinyModel<StageBatch, GptStage> = {
  ...tinyGpt,
  build: (options) =>
    buildGptStages({
      ...cut(options),
      model: llama,
      lora: {
        rank: 3,
        scale: 2,
        dropout: 0.1,
        targets: ['query', 'value', 'projection', 'gate', 'up', 'fc2'],
      },
    }),
};

/**
 * Returns a micro-batch with sentence order, and two masked tokens in each sample. All micro-batches have the
 * same number of tokens, but the length of the longest sample varies.
 */
function maskedBatch(number: number, padded: number): MaskedTokenBatch {
  const size = microBatchSize * padded;
  const shorter = 12 * (number % 2);
  const lengths = Int32Array.of(padded - shorter, 20 + shorter);
  const maskedPositions = Int32Array.from({ length: 2 * microBatchSize }, (_, index) => {
    const row = index % microBatchSize;
    return (index < microBatchSize ? 1 : lengths[row]! - 1) * microBatchSize + row;
  });
  return {
    batchSize: microBatchSize,
    sequenceLength: padded,
    lengths,
    maskedPositions,
    tokens: Int32Array.from({ length: size }, (_, index) => token(number, index)),
    tokenTypes: Int32Array.from({ length: size }, (_, index) => (index < size / 2 ? 0 : 1)),
    maskedLabels: maskedPositions.map((position) => token(number, position + 1)),
    maskedWeights: new Float32Array(maskedPositions.length).fill(1),
    numMasked: maskedPositions.length,
    sentenceOrderLabels: Int32Array.from({ length: microBatchSize }, (_, b) => (number + b) % 2),
    sampleNumbers: sampleNumbers(number),
  };
}

const bert = (maxPositionEmbeddings: number): BertModelConfiguration => ({
  ...shape,
  maxPositionEmbeddings,
  tokenTypeVocabularySize: 2,
  layerNormPlacement: 'pre',
  sentenceOrderHead: true,
});

export const tinyBert: TinyModel<MaskedStageBatch, BertStage> = {
  numLayers,
  microBatchSize,
  sequenceLength: lengthOfBert,
  losses: [
    { name: 'lm_loss', per: 'token', count: ({ numMasked }) => numMasked ?? 0 },
    { name: 'sop_loss', per: 'sample', count: ({ batchSize }) => batchSize },
  ],
  build: (options) => buildBertStages({ ...cut(options), model: bert(lengthOfBert) }),
  makeBatch: maskedBatch,
};

/** A classification of samples; the padding of each sample differs. */
export const tinyTask: TinyModel<TaskTokenBatch, BertTaskStage> = {
  numLayers,
  microBatchSize,
  sequenceLength: lengthOfGpt,
  losses: [{ name: 'task_loss', per: 'sample', count: ({ batchSize }) => batchSize }],
  build: (options) =>
    buildBertTaskStages({
      ...cut(options),
      model: bert(lengthOfGpt),
      task: { kind: 'classification', numClasses: 3 },
    }),
  makeBatch: (number, length) => {
    const { batchSize, sequenceLength, tokens, tokenTypes } = maskedBatch(number, length);
    return {
      batchSize,
      sequenceLength,
      tokens,
      tokenTypes,
      numChoices: 1,
      lengths: Int32Array.of(length - (number % 3), length - ((number + 1) % 3)),
      labels: Int32Array.from({ length: microBatchSize }, (_, b) => (number + b) % 3),
      sampleNumbers: sampleNumbers(number),
      startPositions: undefined,
      endPositions: undefined,
    };
  },
};
