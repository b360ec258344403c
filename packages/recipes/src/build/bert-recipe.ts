import { buildBertDatasets, createBatchLoader } from '@mtl/data';
import { ConfigurationError, UsageError } from '@mtl/errors';
import {
  type BertModelConfiguration,
  type BertStage,
  bertEndsWork,
  bertParameterNames,
  buildBertStages,
  type MaskedTokenBatch,
  numBertParameters,
  readHuggingFaceBert,
  writeHuggingFaceBert,
} from '@mtl/models';
import type { BertConfiguration, GptConfiguration } from '../gpt-configuration.js';
import { prepareDefaultCorpus } from './default-corpus.js';
import { filledMasks } from './filled-masks.js';
import type { ModelRecipe } from './model-recipe.js';
import { transformerConfiguration } from './transformer-configuration.js';

/** How a BERT is trained. */
export const bertRecipe: ModelRecipe<BertModelConfiguration, MaskedTokenBatch, BertStage> = {
  kind: 'bert',
  tokenizerFlags: '--tokenizer-type BertWordPieceLowerCase or BertWordPieceCase with --vocab-file vocab.txt',
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
  // every stage masks padding, so that all read the data
  batches: ({ needsTokens: _, ...options }) => createBatchLoader(options),
  modelOf: (configuration, vocabularySize) => {
    const { layerNormPlacement, sentenceOrderHead } = bertOf(configuration);
    return {
      ...transformerConfiguration(configuration.model, vocabularySize),
      tokenTypeVocabularySize: 2,
      layerNormPlacement,
      sentenceOrderHead,
      geluKind: 'erf',
    };
  },
  numParameters: numBertParameters,
  parameterNames: bertParameterNames,
  flopsOfHead: (configuration) => ({ headShare: bertOf(configuration).maskProbability }),
  endsWork: (configuration, model) =>
    bertEndsWork(model, {
      sequenceLength: configuration.model.sequenceLength,
      maskedShare: bertOf(configuration).maskProbability,
    }),
  buildStages: buildBertStages,
  losses: ({ sentenceOrderHead }) => [
    { name: 'mlm_loss', per: 'token', count: ({ numMasked }) => numMasked },
    ...(sentenceOrderHead
      ? [
          {
            ...({ name: 'sop_loss', per: 'sample' } as const),
            count: ({ batchSize }: MaskedTokenBatch) => batchSize,
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
  checkSaveHuggingFace: ({ layerNormPlacement }) => {
    if (layerNormPlacement === 'post') return;
    throw new ConfigurationError(
      'MTL_HUGGING_FACE_LAYER_NORM',
      "--save-hf with layer norm before each sublayer, which transformers' BERT does not compute",
      { expected: '--layer-norm-placement post' },
    );
  },
  saveHuggingFace: ({ tokenizer, ...options }) => {
    const type = tokenizer.options?.type;
    const isWordPiece = type === 'BertWordPieceLowerCase' || type === 'BertWordPieceCase';
    return writeHuggingFaceBert({
      ...options,
      ...(tokenizer.padId === undefined ? {} : { paddingToken: tokenizer.padId }),
      ...(isWordPiece ? { lowersCase: type === 'BertWordPieceLowerCase' } : {}),
    });
  },
  show: async (options) => await filledMasks(options),
};

function bertOf({ bert }: GptConfiguration): BertConfiguration {
  if (bert !== undefined) return bert;
  throw new UsageError('MTL_MODEL_KIND', 'a BERT is built from the configuration of another model', {
    expected: "a configuration whose kind is 'bert'",
  });
}
