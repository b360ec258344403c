import { PythonFloat } from '@mtl/chat-templates';
import type { MaskedTokenBatch } from '@mtl/layout';
import type { Tokenizer } from '@mtl/tokenizers';
import type { IndexFile } from '../indexed/index-file.js';
import { IndexedDataset } from '../indexed/indexed-dataset.js';
import { type PythonJsonValue, pythonJson } from '../python/json.js';
import { RandomState } from '../random/random-state.js';
import {
  buildSplitDatasets,
  type SplitDatasets,
  type SplitDatasetsOptions,
} from '../samples/build-split-datasets.js';
import {
  datasetIdentifiers,
  inPart,
  type SampleIndexPart,
  type SampleIndexSettings,
  splitSequences,
} from '../samples/dataset-part.js';
import { cachedIndex, indexCacheDirectory } from '../samples/index-cache.js';
import { assembleBatch, type SampleDataset, type SampleDocuments } from '../samples/sample-dataset.js';
import {
  createMaskedTokenBatch,
  type MaskedTokenBatchDraft,
  mostMasked,
  numSpecialTokens,
  trimMaskedTokens,
} from './masked-token-batch.js';
import {
  bertMasking,
  checkMasking,
  type MaskingOptions,
  type MaskingVocabulary,
  maskingVocabulary,
  TokenMasker,
} from './masking.js';
import {
  buildSentenceMapping,
  checkSentenceMapping,
  countDocuments,
  type DocumentCounts,
  SentenceReader,
} from './sentence-mapping.js';

// S = sequence length.

/** The name of the dataset's class in Megatron, which is part of the names of cache files. */
const className = 'BERTMaskedWordPieceDataset';

/** The settings that all of a run's BERT datasets share. */
interface BertDatasetSettings extends SampleIndexSettings {
  /** The WordPiece tokenizer that wrote the dataset. */
  readonly tokenizer: Tokenizer;
  /**
   * The tokenizer identifiers that enter the md5 in the names of cache files. Default: the tokenizer's own
   * identifiers. With Megatron's identifiers, Megatron and this project can use each other's caches.
   */
  readonly tokenizerIdentifiers?: PythonJsonValue;
  /** Changes to Megatron's masks. */
  readonly masking?: Partial<MaskingOptions>;
  /** The probability that a sample has a shorter target length (`--short-seq-prob`, default 0.1). */
  readonly shortSequenceProbability?: number;
  /**
   * True (default) if a sample is a pair of segments, which the sentence-order head needs. False if it is a
   * single segment.
   */
  readonly sentencePairs?: boolean;
}

/**
 * The settings of a BERT dataset, and the split of an indexed dataset that provides its samples. The indexed
 * dataset must consist of sentences (see `splitSentences` of `prepareDataset`). It is split by documents.
 */
export interface BertDatasetOptions extends BertDatasetSettings, SampleIndexPart {}

/** A BERT dataset's description, which can be sent to worker threads. */
export interface BertDatasetDescription {
  readonly kind: 'bert';
  readonly index: IndexFile;
  /** uint32 [N, 3] for N samples: each sample's first sentence, end sentence and target length. */
  readonly mapping: Uint32Array;
  /** How many documents this split has, and how many of these have no samples. */
  readonly documents: DocumentCounts;
  readonly sequenceLength: number;
  readonly seed: number;
  readonly masking: MaskingOptions;
  readonly vocabulary: MaskingVocabulary;
  readonly sentencePairs: boolean;
}

/** A sample with the fields of Megatron's BERTMaskedWordPieceDataset. Arrays are int32 [S]. */
interface BertSample {
  readonly text: Int32Array;
  readonly types: Int32Array;
  /** The masked tokens, -1 elsewhere. */
  readonly labels: Int32Array;
  readonly lossMask: Int32Array;
  /**
   * 1 for tokens and 0 for padding. As in Megatron, every padding id in `text` counts as padding, even if it
   * is a random replacement of a masked token.
   */
  readonly paddingMask: Int32Array;
  /** True if the segments A and B were swapped. */
  readonly isRandom: boolean;
  readonly truncated: boolean;
}

/** A drawn sample's properties except its tokens, which are stored separately. */
interface DrawnSample {
  readonly length: number;
  /** The number of tokens whose type is 0. They are at the start of the sample. */
  readonly firstLength: number;
  readonly isRandom: boolean;
  readonly truncated: boolean;
}

/**
 * Megatron's BERTMaskedWordPieceDataset: `[CLS] A [SEP] B [SEP]` from consecutive sentences. For
 * sentence-order prediction (see Lan 2019), A and B are swapped in half of the samples. Whole words are
 * masked in n-grams. Given the same files, split, seed and sizes, the tokens are the same as in Megatron. Use
 * `openBertDataset` to open a dataset.
 */
export class BertDataset implements SampleDataset<MaskedTokenBatch> {
  readonly description: BertDatasetDescription;
  readonly #sentences: SentenceReader;
  readonly #masker: TokenMasker;
  readonly #random = new RandomState(0);
  /** int32 [S]: the tokens of the sample being drawn. */
  readonly #tokens: Int32Array;

  constructor(description: BertDatasetDescription) {
    const { index, mapping, sequenceLength, masking, vocabulary } = description;
    this.description = description;
    this.#sentences = new SentenceReader({
      indexed: IndexedDataset.fromIndex(index),
      mapping,
      vocabularySize: vocabulary.size,
    });
    this.#masker = new TokenMasker({ vocabulary, masking, maximumLength: sequenceLength });
    this.#tokens = new Int32Array(sequenceLength);
  }

  get length(): number {
    return this.#sentences.numSamples;
  }
  get sequenceLength(): number {
    return this.description.sequenceLength;
  }

  /** Returns the given sample in the form that Megatron's dataset returns. */
  megatronSample(sample: number): BertSample {
    const { sequenceLength, vocabulary } = this.description;
    const { length, firstLength, isRandom, truncated } = this.#draw(sample);
    const { positions, labels: maskedLabels, numMasked } = this.#masker;
    // as in Megatron, all arrays are padded with the padding id
    const padded = () => new Int32Array(sequenceLength).fill(vocabulary.padding, length);
    const text = padded();
    text.set(this.#tokens.subarray(0, length));
    const labels = new Int32Array(sequenceLength).fill(-1);
    const lossMask = new Int32Array(sequenceLength);
    for (let i = 0; i < numMasked; i++) {
      labels[positions[i]!] = maskedLabels[i]!;
      lossMask[positions[i]!] = 1;
    }
    return {
      text,
      types: padded().fill(1, firstLength, length),
      labels,
      lossMask,
      paddingMask: text.map((token) => (token === vocabulary.padding ? vocabulary.padding : 1)),
      isRandom,
      truncated,
    };
  }

  createBatch(batchSize: number): MaskedTokenBatch {
    const { sequenceLength, masking, vocabulary, sentencePairs } = this.description;
    return createMaskedTokenBatch({
      batchSize,
      sequenceLength,
      maximumMasked: mostMasked({ batchSize, sequenceLength, probability: masking.probability }),
      padding: vocabulary.padding,
      withSentenceOrder: sentencePairs,
    });
  }

  fillRow({ sample, batch, row }: { sample: number; batch: MaskedTokenBatch; row: number }): void {
    const { length, firstLength, isRandom } = this.#draw(sample);
    const draft = batch as MaskedTokenBatchDraft;
    const { batchSize, tokens, tokenTypes } = draft;
    for (let i = 0, at = row; i < length; i++, at += batchSize) tokens[at] = this.#tokens[i]!;
    for (let i = firstLength; i < length; i++) tokenTypes[i * batchSize + row] = 1;
    const { positions, labels, numMasked } = this.#masker;
    for (let i = 0; i < numMasked; i++) {
      const slot = draft.numMasked++;
      draft.maskedPositions[slot] = positions[i]! * batchSize + row;
      draft.maskedLabels[slot] = labels[i]!;
      draft.maskedWeights[slot] = 1;
    }
    draft.lengths[row] = length;
    if (draft.sentenceOrderLabels !== undefined) draft.sentenceOrderLabels[row] = isRandom ? 1 : 0;
    draft.sampleNumbers[row] = sample;
  }

  finishBatch(batch: MaskedTokenBatch): MaskedTokenBatch {
    return trimMaskedTokens(batch);
  }

  measureLength(sample: number): number {
    const { firstSentence: first, endSentence: end, targetLength } = this.#sentences.findRange(sample);
    const tokens = Math.min(this.#sentences.countTokens({ first, end }), targetLength);
    if (!this.description.sentencePairs) return tokens + 2;
    // if the first and the last sentence have tokens, both segments have tokens wherever the pair is split.
    // Truncation leaves at least one token in each segment, because every target length has room for two. If
    // the first or the last sentence has no tokens, the sample must be drawn to find out if a segment is
    // empty
    const isEmpty = (sentence: number): boolean =>
      this.#sentences.countTokens({ first: sentence, end: sentence + 1 }) === 0;
    const isSure = end - first >= 2 && !isEmpty(first) && !isEmpty(end - 1);
    return isSure ? tokens + numSpecialTokens : this.#draw(sample).length;
  }

  sample(sample: number): MaskedTokenBatch {
    return assembleBatch(this, [sample]);
  }

  listDocuments(sample: number): SampleDocuments {
    return { source: this.#sentences.prefix, documents: [this.#sentences.findDocument(sample)] };
  }

  close(): void {
    this.#sentences.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /** Draws the given sample into `#tokens` and `#masker`. Uses random numbers in Megatron's order. */
  #draw(sample: number): DrawnSample {
    const { seed, sentencePairs, vocabulary } = this.description;
    const { tokens: sentences, firstSentence, endSentence, targetLength } = this.#sentences.read(sample);
    const random = this.#random;
    random.reseed(seed + sample);
    const numSentences = endSentence - firstSentence;
    let pivot = numSentences;
    let isRandom = false;
    if (sentencePairs) {
      pivot = numSentences >= 3 ? random.randint(1, numSentences) : 1;
      isRandom = random.double() < 0.5;
    }
    const boundary = this.#sentences.countTokens({ first: firstSentence, end: firstSentence + pivot });
    let first = { from: 0, to: boundary };
    let second = { from: boundary, to: sentences.length };
    if (isRandom) [first, second] = [second, first];
    const truncated = truncatePair({ first, second, targetLength, random });
    const tokens = this.#tokens;
    tokens[0] = vocabulary.classification;
    tokens.set(sentences.subarray(first.from, first.to), 1);
    const firstLength = first.to - first.from + 2;
    let length = firstLength;
    tokens[length - 1] = vocabulary.separator;
    if (second.to > second.from) {
      tokens.set(sentences.subarray(second.from, second.to), length);
      length += second.to - second.from + 1;
      tokens[length - 1] = vocabulary.separator;
    }
    this.#masker.mask({ tokens, length, targetLength, random, replace: this.#replace });
    return { length, firstLength, isRandom, truncated };
  }

  /**
   * Returns the replacement of a masked token: `[MASK]` with a probability of 80 %, a random token with 10 %,
   * and the token itself with 10 % (see Devlin 2018, 3.1).
   */
  readonly #replace = (random: RandomState, label: number): number => {
    const { mask, ids } = this.description.vocabulary;
    if (random.double() < 0.8) return mask;
    return random.double() >= 0.5 ? ids[random.randint(0, ids.length)]! : label;
  };
}

interface TokenRange {
  from: number;
  to: number;
}

/**
 * While the two segments do not fit, removes a token from a random end of the longer segment. Returns true if
 * any token was removed.
 */
function truncatePair(options: {
  first: TokenRange;
  second: TokenRange;
  targetLength: number;
  random: RandomState;
}): boolean {
  const { first, second, targetLength, random } = options;
  let firstLength = first.to - first.from;
  let secondLength = second.to - second.from;
  if (firstLength + secondLength <= targetLength) return false;
  while (firstLength + secondLength > targetLength) {
    const range = firstLength > secondLength ? first : second;
    if (random.double() < 0.5) range.from++;
    else range.to--;
    if (range === first) firstLength--;
    else secondLength--;
  }
  return true;
}

/** Returns the identifiers whose md5 is part of the names of a BERT dataset's cache files, as in Megatron. */
export function bertDatasetIdentifiers(options: BertDatasetOptions): Record<string, PythonJsonValue> {
  const { tokenizer, tokenizerIdentifiers = tokenizer.identifiers, sentencePairs = true } = options;
  const masking = { ...bertMasking, ...options.masking };
  return {
    ...datasetIdentifiers(className, { ...options, tokenizerIdentifiers }),
    masking_probability: new PythonFloat(masking.probability),
    short_sequence_probability: new PythonFloat(options.shortSequenceProbability ?? 0.1),
    masking_max_ngram: masking.maximumNgram,
    masking_do_full_word: masking.wholeWords,
    masking_do_permutation: false,
    masking_use_longer_ngrams: masking.favorLongerNgrams,
    masking_use_geometric_distribution: masking.geometric,
    classification_head: sentencePairs,
  };
}

/**
 * Opens a split of an indexed dataset whose sequences are sentences. Splits the dataset by documents, and
 * builds or loads Megatron's mapping of sentences to samples. Throws coded errors if a file is invalid, if
 * the vocabulary lacks a special token, or if the documents yield no samples.
 */
export function openBertDataset(options: BertDatasetOptions): BertDataset {
  const { sequenceLength, seed, sentencePairs = true, tokenizer } = options;
  const masking = { ...bertMasking, ...options.masking };
  checkMasking(masking);
  const vocabulary = maskingVocabulary(tokenizer);
  return new BertDataset({
    kind: 'bert',
    ...openSentences(options),
    sequenceLength,
    seed,
    sentencePairs,
    masking,
    vocabulary,
  });
}

/** Opens the sentences of a split, and builds or loads the mapping that defines its samples. */
function openSentences(
  options: BertDatasetOptions,
): Pick<BertDatasetDescription, 'index' | 'mapping' | 'documents'> {
  const { prefix, numSamples, sequenceLength, seed, cacheDirectory, sentencePairs = true } = options;
  using indexed = IndexedDataset.open(prefix);
  const { first, end } = splitSequences({ ...options, count: indexed.numDocuments });
  const mappingOptions = {
    documentIndices: indexed.documentIndices.subarray(first, end + 1),
    sizes: indexed.sequenceLengths,
    numSamples,
    maximumLength: sequenceLength - numSpecialTokens,
    shortSequenceProbability: options.shortSequenceProbability ?? 0.1,
    seed,
    minimumSentences: sentencePairs ? 2 : 1,
  };
  const arrays = cachedIndex({
    directory: indexCacheDirectory({ prefix: indexed.prefix, cacheDirectory }, className),
    className,
    description: pythonJson(bertDatasetIdentifiers(options)),
    arrays: { sample_index: { descr: '<u4', shape: [undefined, 3] } },
    build: () => ({ sample_index: inPart(options, () => buildSentenceMapping(mappingOptions)) }),
    check: (loaded) => checkSentenceMapping({ ...mappingOptions, mapping: loaded.sample_index }),
    onEvent: options.onCacheEvent,
  });
  return { index: indexed.index, mapping: arrays.sample_index, documents: countDocuments(mappingOptions) };
}

/** The datasets of a BERT run. */
interface BertDatasetsOptions
  extends Omit<BertDatasetSettings, 'cacheDirectory' | 'splitWeights' | 'onCacheEvent'>,
    SplitDatasetsOptions {}

/**
 * Opens the train, valid and test splits of a dataset or a blend. Megatron's rules determine how many samples
 * each split has and how many extra samples a blend draws.
 */
export function buildBertDatasets(options: BertDatasetsOptions): SplitDatasets<MaskedTokenBatch> {
  return buildSplitDatasets(options, {
    open: (part) => openBertDataset({ ...options, ...part }),
    identifiers: (part) => bertDatasetIdentifiers({ ...options, ...part }),
  });
}
