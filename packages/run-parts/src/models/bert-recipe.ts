import { bertModelOf, bertOf } from '@mtl/configuration';
import { buildBertDatasets, mostRoomForMasked, type SampleDataset } from '@mtl/data';
import { readHuggingFaceBert, writeHuggingFaceBert } from '@mtl/formats';
import {
  type BertModelConfiguration,
  type BertStage,
  bertEmbeddingAndHeadCost,
  bertMatmuls,
  bertParameterNames,
  buildBertStages,
  type MaskedStageBatch,
  numBertParameters,
} from '@mtl/models';
import { prepareDefaultCorpus } from '../corpus/default-corpus.js';
import { bertTokenizerSettings } from './bert-tokenizer-settings.js';
import { filledMasks } from './filled-masks.js';
import type { ModelRecipe } from './model-recipe.js';
import { stageBatches } from './stage-batches.js';

/** How a BERT is trained. */
export const bertRecipe: ModelRecipe<BertModelConfiguration, MaskedStageBatch, BertStage> = {
  kind: 'bert',
  prepareCorpus: (options) => prepareDefaultCorpus({ ...options, kind: 'bert' }),
  openDatasets: (configuration, options) => {
    const { data, model, training } = configuration;
    const { sentenceOrderHead, maskProbability, shortSequenceProbability } = bertOf(configuration);
    return buildBertDatasets({
      ...options,
      sequenceLength: model.sequenceLength,
      seed: training.seed,
      splitWeights: data.split,
      sentencePairs: sentenceOrderHead,
      shortSequenceProbability,
      masking: { probability: maskProbability },
    });
  },
  batches: (options) => stageBatches(options, outlineOf(options.dataset)),
  placeholderBatch: (configuration) => {
    const { model, training } = configuration;
    const { sentenceOrderHead, maskProbability: probability } = bertOf(configuration);
    const { sequenceLength } = model;
    const batchSize = training.microBatchSize;
    const numMasked = mostRoomForMasked({ batchSize, sequenceLength, probability });
    const ids = new Int32Array(batchSize * sequenceLength);
    return {
      batchSize,
      sequenceLength,
      tokens: ids,
      tokenTypes: ids,
      lengths: new Int32Array(batchSize).fill(sequenceLength),
      maskedPositions: new Int32Array(numMasked),
      maskedLabels: new Int32Array(numMasked),
      maskedWeights: new Float32Array(numMasked).fill(1),
      numMasked,
      sentenceOrderLabels: sentenceOrderHead ? new Int32Array(batchSize) : undefined,
      sampleNumbers: Float64Array.from({ length: batchSize }, (_, index) => index),
    };
  },
  modelOf: bertModelOf,
  numParameters: numBertParameters,
  numActiveParameters: () => undefined,
  parameterNames: bertParameterNames,
  matmulsOf: (configuration, model) => ({
    ...bertMatmuls(model),
    headShare: bertOf(configuration).maskProbability,
  }),
  embeddingAndHeadCost: (configuration, model) =>
    bertEmbeddingAndHeadCost(model, {
      sequenceLength: configuration.model.sequenceLength,
      maskedShare: bertOf(configuration).maskProbability,
    }),
  buildStages: buildBertStages,
  losses: ({ sentenceOrderHead }) => [
    { name: 'lm_loss', per: 'token', count: ({ numMasked }) => numMasked ?? 0 },
    ...(sentenceOrderHead
      ? [
          {
            ...({ name: 'sop_loss', per: 'sample' } as const),
            count: ({ batchSize }: MaskedStageBatch) => batchSize,
          },
        ]
      : []),
  ],
  openHuggingFace: (configuration, directory) =>
    readHuggingFaceBert({
      directory,
      makeVocabularySizeDivisibleBy: configuration.model.makeVocabSizeDivisibleBy,
      // where the flags ask for the head, the directory decides
      ...(bertOf(configuration).sentenceOrderHead ? {} : { sentenceOrderHead: false }),
    }),
  saveHuggingFace: ({ tokenizer, ...options }) =>
    writeHuggingFaceBert({
      ...options,
      ...(tokenizer === undefined ? {} : bertTokenizerSettings(tokenizer)),
    }),
  show: async (options) => await filledMasks(options),
};

/** Every layer must know where the packed samples begin and end. */
function outlineOf(
  dataset: SampleDataset<MaskedStageBatch>,
): ((samples: readonly number[]) => MaskedStageBatch) | undefined {
  const { sequenceLength } = dataset;
  if (dataset.lengthOf === undefined) return undefined;
  return (samples) => ({
    batchSize: samples.length,
    sequenceLength,
    lengths: Int32Array.from(samples, (sample) => dataset.lengthOf!(sample)),
    sampleNumbers: Float64Array.from(samples),
  });
}
