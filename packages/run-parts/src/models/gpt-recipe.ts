import { gptModelOf } from '@mtl/configuration';
import { buildGptDatasets, type SampleDataset } from '@mtl/data';
import { readHuggingFaceGpt, writeHuggingFaceGpt } from '@mtl/formats';
import {
  buildGptStages,
  type GptModelConfiguration,
  type GptStage,
  gptEmbeddingAndHeadCost,
  gptMatmuls,
  gptParameterNames,
  numActiveParameters,
  numLayerWeights,
  numLossTokens,
  numParameters,
  type StageBatch,
} from '@mtl/models';
import { endTokensOf } from '../conversations/end-tokens-of.js';
import { prepareDefaultCorpus } from '../corpus/default-corpus.js';
import { expertLosses } from './expert-losses.js';
import { gptSample } from './gpt-sample.js';
import type { ModelRecipe } from './model-recipe.js';
import { stageBatches } from './stage-batches.js';

/** How a GPT is trained. */
export const gptRecipe: ModelRecipe<GptModelConfiguration, StageBatch, GptStage> = {
  kind: 'gpt',
  prepareCorpus: (options) => prepareDefaultCorpus({ ...options, kind: 'gpt' }),
  openDatasets: ({ data, model, training }, { tokenizer, ...options }) =>
    buildGptDatasets({
      ...options,
      sequenceLength: model.sequenceLength,
      seed: training.seed,
      splitWeights: data.split,
      padId: tokenizer.padId,
      vocabularySize: tokenizer.vocabularySize,
      tokenizerIdentifiers: tokenizer.identifiers,
      endOfDocument: tokenizer.eod,
      eodMaskLoss: data.eodMaskLoss,
      resetPositionIds: data.resetPositionIds,
      resetAttentionMask: data.resetAttentionMask,
    }),
  batches: (options) => stageBatches(options, outlineOf(options.dataset)),
  placeholderBatch: ({ data, model, training }) => {
    const { sequenceLength } = model;
    const batchSize = training.microBatchSize;
    const ids = new Int32Array(batchSize * sequenceLength);
    return {
      batchSize,
      sequenceLength,
      tokens: ids,
      labels: ids,
      lossMask: new Float32Array(ids.length).fill(1),
      positionIds: ids,
      keyStart: data.resetAttentionMask ? ids : undefined,
      sampleNumbers: Float64Array.from({ length: batchSize }, (_, index) => index),
    };
  },
  modelOf: ({ model }, vocabularySize) => gptModelOf(model, vocabularySize),
  numParameters,
  numActiveParameters: (model) => (model.numExperts === undefined ? undefined : numActiveParameters(model)),
  parameterNames: gptParameterNames,
  matmulsOf: (_, model) => ({
    ...gptMatmuls(model),
    heldWeights: model.numExperts === undefined ? undefined : numLayerWeights(model),
  }),
  embeddingAndHeadCost: (configuration, model) =>
    gptEmbeddingAndHeadCost(model, configuration.model.sequenceLength),
  buildStages: buildGptStages,
  losses: (model) => [{ name: 'lm_loss', per: 'token', count: numLossTokens }, ...expertLosses(model)],
  openHuggingFace: ({ model }, directory) =>
    readHuggingFaceGpt({ directory, makeVocabularySizeDivisibleBy: model.makeVocabSizeDivisibleBy }),
  saveHuggingFace: ({ tokenizer, ...options }) =>
    writeHuggingFaceGpt({ ...options, endTokens: tokenizer === undefined ? [] : endTokensOf(tokenizer) }),
  show: gptSample,
};

/** Where attention stops at documents, every layer must know where they end. */
function outlineOf(
  dataset: SampleDataset<StageBatch>,
): ((samples: readonly number[]) => StageBatch) | undefined {
  if (dataset.createBatch(1).keyStart !== undefined) return undefined;
  const { sequenceLength } = dataset;
  return (samples) => ({
    batchSize: samples.length,
    sequenceLength,
    keyStart: undefined,
    sampleNumbers: Float64Array.from(samples),
  });
}
