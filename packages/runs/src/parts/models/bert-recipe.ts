import { describeBertModel } from '@mtl/configuration';
import { requireBert } from '@mtl/configuration/internal';
import { buildBertDatasets, type SampleDataset } from '@mtl/data';
import { maskingVocabulary, mostRoomForMasked } from '@mtl/data/internal';
import { readHuggingFaceBert, type WriteHuggingFaceBertOptions, writeHuggingFaceBert } from '@mtl/formats';
import {
  type BertModelConfiguration,
  type BertStage,
  bertEmbeddingAndHeadCost,
  bertMatmuls,
  buildBertStages,
  type MaskedStageBatch,
  type MaskedTokenBatch,
} from '@mtl/models';
import { bertParameterNames, numBertParameters } from '@mtl/models/internal';
import type { Tokenizer } from '@mtl/tokenizers';
import { noAdapters } from '../adapters/model-adapters.js';
import { prepareDefaultCorpus } from '../corpus/default-corpus.js';
import type { ModelSample } from '../samples/sample-continuation.js';
import type { ModelRecipe, ShowOptions } from './model-recipe.js';
import { stageBatches } from './stage-batches.js';

/** The functions and settings of a training run that are specific to BERT. */
export const bertRecipe: ModelRecipe<BertModelConfiguration, MaskedStageBatch, BertStage> = {
  kind: 'bert',
  adapters: noAdapters,
  upcycling: undefined,
  prepareCorpus: (options) => prepareDefaultCorpus({ ...options, kind: 'bert' }),
  openDatasets: (configuration, options) => {
    const { data, model, training } = configuration;
    const { sentenceOrderHead, maskProbability, shortSequenceProbability } = requireBert(configuration);
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
  batches: (options) => stageBatches(options, chooseOutline(options.dataset)),
  placeholderBatch: (configuration) => {
    const { model, training } = configuration;
    const { sentenceOrderHead, maskProbability: probability } = requireBert(configuration);
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
  describeModel: describeBertModel,
  numParameters: numBertParameters,
  numActiveParameters: () => undefined,
  parameterNames: bertParameterNames,
  describeMatmuls: (configuration, model) => ({
    ...bertMatmuls(model),
    headShare: requireBert(configuration).maskProbability,
  }),
  embeddingAndHeadCost: (configuration, model) =>
    bertEmbeddingAndHeadCost(model, {
      sequenceLength: configuration.model.sequenceLength,
      maskedShare: requireBert(configuration).maskProbability,
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
      // a sentence-order head that the flags request is loaded only if the directory contains one
      ...(requireBert(configuration).sentenceOrderHead ? {} : { sentenceOrderHead: false }),
    }),
  saveHuggingFace: ({ tokenizer, ...options }) =>
    writeHuggingFaceBert({
      ...options,
      ...(tokenizer === undefined ? {} : bertTokenizerSettings(tokenizer)),
    }),
  show: async (options) => await filledMasks(options),
};

/**
 * Returns a function that makes the outlines of samples (batches without tokens) for the pipeline's middle
 * stages. Returns undefined for packed samples, because every layer must then know where samples begin and
 * end.
 */
function chooseOutline(
  dataset: SampleDataset<MaskedStageBatch>,
): ((samples: readonly number[]) => MaskedStageBatch) | undefined {
  const { sequenceLength } = dataset;
  if (dataset.measureLength === undefined) return undefined;
  return (samples) => ({
    batchSize: samples.length,
    sequenceLength,
    lengths: Int32Array.from(samples, (sample) => dataset.measureLength!(sample)),
    sampleNumbers: Float64Array.from(samples),
  });
}

/** How many masks are shown, each from a different sample, and how many candidates are tried. */
const numMasks = { shown: 4, tried: 32 };
const numMasksOfBrief = { shown: 2, tried: 8 };
/** How many words to show for each mask, each with its probability. */
const numWords = 5;
/** The number of tokens to show on either side of a mask. */
const numAround = 10;

/** A masked position in a sample, and the model's prediction for it. */
interface Filled {
  readonly batch: MaskedTokenBatch;
  /** The index of the mask among the sample's masks. */
  readonly index: number;
  /** The predicted probability of each token, [V]. */
  readonly probabilities: Float32Array;
}

/**
 * Fills some masks in held-out text, as a first impression of a BERT's knowledge. Among the first samples,
 * chooses the masks with the most informative context: the masked words have the highest probability relative
 * to their mean probability over all masks. Returns undefined if no stage has the complete model.
 */
async function filledMasks(
  options: ShowOptions<MaskedStageBatch, BertStage>,
): Promise<ModelSample | undefined> {
  const { part, tokenizer, datasets, isBrief } = options;
  const stage = part.stages.get(0);
  const dataset = datasets.valid ?? datasets.train;
  if (stage === undefined || !stage.isLast || dataset === undefined) return undefined;
  const { mask } = maskingVocabulary(tokenizer);
  const { shown, tried } = isBrief ? numMasksOfBrief : numMasks;
  const all: Filled[] = [];
  for (let number = 0; number < dataset.length && all.length < tried; number++) {
    // the cast is safe, because datasets return complete samples, never an outline
    const batch = dataset.sample(number) as MaskedTokenBatch;
    const index = loneliestMask(batch, mask);
    if (index === undefined) continue;
    const { maskedLogits } = stage.predict(batch);
    const { vocabularySize } = stage.model;
    const logits = maskedLogits.subarray(index * vocabularySize, (index + 1) * vocabularySize);
    all.push({ batch, index, probabilities: softmax(logits) });
  }
  const lines = mostTold(all, shown).map((filled) => formatLine(filled, tokenizer));
  if (lines.length === 0) return undefined;
  const label = `Masks filled (of ${all.length}, those that the words around tell most about)`;
  return { label, text: `${label}:\n${lines.join('\n')}` };
}

/**
 * Returns the masks for which word and context have the largest pointwise mutual information, the largest
 * first.
 */
function mostTold(all: readonly Filled[], count: number): readonly Filled[] {
  const told = ({ batch, index, probabilities }: Filled): number => {
    const word = batch.maskedLabels[index]!;
    const sum = all.reduce((total, other) => total + other.probabilities[word]!, 0);
    return probabilities[word]! / sum;
  };
  return all.toSorted((one, other) => told(other) - told(one)).slice(0, count);
}

function formatLine({ batch, index, probabilities }: Filled, tokenizer: Tokenizer): string {
  const best = Array.from(probabilities.keys())
    .sort((a, b) => probabilities[b]! - probabilities[a]!)
    .slice(0, numWords)
    .map((token) => `${decodeWord(tokenizer, token)} ${(100 * probabilities[token]!).toFixed(1)} %`);
  const truth = decodeWord(tokenizer, batch.maskedLabels[index]!);
  return `... ${textAround(batch, { index, tokenizer })} ...\n    ${best.join(', ')} (it was: ${truth})`;
}

/**
 * Returns the index of the visible `[MASK]` that is farthest from all other masks and from the ends of the
 * sample.
 */
function loneliestMask(batch: MaskedTokenBatch, mask: number): number | undefined {
  const positions = batch.maskedPositions.subarray(0, batch.numMasked);
  const shown = Array.from(positions.keys()).filter((index) => batch.tokens[positions[index]!] === mask);
  const distance = (index: number): number =>
    Math.min(
      ...shown
        .filter((other) => other !== index)
        .map((other) => Math.abs(positions[other]! - positions[index]!)),
      positions[index]!,
      batch.lengths[0]! - 1 - positions[index]!,
    );
  return shown.sort((one, other) => distance(other) - distance(one))[0];
}

function textAround(
  batch: MaskedTokenBatch,
  { index, tokenizer }: { index: number; tokenizer: Tokenizer },
): string {
  const at = batch.maskedPositions[index]!;
  const start = Math.max(1, at - numAround);
  const end = Math.min(batch.lengths[0]! - 1, at + numAround + 1);
  const text = (from: number, to: number): string => tokenizer.decode(batch.tokens.subarray(from, to));
  return [text(start, at), '[____]', text(at + 1, end)].join(' ');
}

function decodeWord(tokenizer: Tokenizer, token: number): string {
  return tokenizer.decode([token]);
}

/** Returns the probabilities [V] for logits [V]. */
function softmax(logits: Float32Array): Float32Array {
  const largest = logits.reduce((most, value) => Math.max(most, value), Number.NEGATIVE_INFINITY);
  const weights = logits.map((value) => Math.exp(value - largest));
  const total = weights.reduce((sum, value) => sum + value, 0);
  return weights.map((value) => value / total);
}

/** Returns the tokenizer settings to write to a BERT's Hugging Face directory. */
export function bertTokenizerSettings({
  options,
  padId,
}: Pick<Tokenizer, 'options' | 'padId'>): Pick<WriteHuggingFaceBertOptions, 'paddingToken' | 'lowersCase'> {
  const type = options?.type;
  const isWordPiece = type === 'BertWordPieceLowerCase' || type === 'BertWordPieceCase';
  return {
    ...(padId === undefined ? {} : { paddingToken: padId }),
    ...(isWordPiece ? { lowersCase: type === 'BertWordPieceLowerCase' } : {}),
  };
}
