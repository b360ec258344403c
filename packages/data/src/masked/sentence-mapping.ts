import { DataError, UsageError } from '@mtl/errors';
import { sharedUint32Array } from '../files/typed-arrays.js';
import type { IndexedDataset } from '../indexed/indexed-dataset.js';
import { MersenneTwister, MersenneTwister64 } from '../random/mersenne-twister.js';

// N = number of samples.

/** Documents that consist of sentences, and the sizes of the samples. */
interface SentenceMappingOptions extends SentenceDocuments {
  /** The maximum number of tokens in a sample, excluding special tokens. */
  readonly maximumLength: number;
  /** The fraction of samples with a shorter target length. Megatron rounds its inverse to an integer. */
  readonly shortSequenceProbability: number;
}

/**
 * Returns the result of Megatron's `build_mapping`, uint32 [N, 3]: each sample's first sentence, end sentence
 * and target length. The rows and their order are the same as in Megatron, bit for bit. Short target lengths
 * are drawn as with C++ `std::mt19937`. Throws `MTL_DATA_NO_SENTENCES` if no document yields a sample.
 */
export function buildSentenceMapping(options: SentenceMappingOptions): Uint32Array {
  const { maximumLength, shortSequenceProbability, seed } = options;
  if (!Number.isInteger(maximumLength) || maximumLength < 2) {
    throw new UsageError('MTL_DATA_SEQUENCE_LENGTH', `samples of ${maximumLength} tokens are not possible`, {
      expected: 'room for 2 or more tokens in addition to the special ones',
      exitCode: 2,
    });
  }
  if (!(shortSequenceProbability >= 0 && shortSequenceProbability <= 1)) {
    throw new UsageError('MTL_DATA_MASKING', `the share ${shortSequenceProbability} of short samples`, {
      expected: 'a number from 0 to 1',
      exitCode: 2,
    });
  }
  // This rounds like C++ round(): halves are rounded away from zero.
  const ratio = shortSequenceProbability > 0 ? Math.floor(1 / shortSequenceProbability + 0.5) : 0;
  const start = () => {
    const random = new MersenneTwister(seed);
    return () => {
      if (ratio === 0) return maximumLength;
      const drawn = random.u32();
      return drawn % ratio === 0 ? 2 + (drawn % (maximumLength - 1)) : maximumLength;
    };
  };
  return walkSentences({ ...options, start });
}

/**
 * The maximum number of tokens in a sentence. If a document of several sentences has a longer sentence, the
 * document yields no samples.
 */
const longestSentence = 512;
/** The number of columns in the mapping: first sentence, end sentence, target length. */
const columns = 3;
// The maximum number of rows, because all rows must fit into a single typed array.
const maximumRows = 0x1fffffff;

/** Documents, each consisting of a range of sentences. A sentence is a sequence of the indexed dataset. */
interface SentenceDocuments {
  /**
   * [documents + 1]: the index of each document's first sentence, followed by the end of the last document.
   */
  readonly documentIndices: ArrayLike<number>;
  /** int32: how many tokens each sentence of the dataset has. */
  readonly sizes: Int32Array;
  /** The minimum number of sentences that a sample must have. */
  readonly minimumSentences: number;
  /**
   * The minimum number of samples. Complete epochs are added until there are enough samples, so there may be
   * more. If it is undefined, there is one epoch.
   */
  readonly numSamples?: number | undefined;
  readonly seed: number;
}

/** Documents, and a source of target lengths for the samples. */
interface WalkSentencesOptions extends SentenceDocuments {
  /**
   * Restarts the random stream, and returns a function that returns the next sample's target length at each
   * call. `start` is called twice, because the sentences are processed in two passes that need the same
   * lengths.
   */
  readonly start: () => () => number;
}

/**
 * Gathers sentences into samples, like Megatron's mapping: a sample ends when it reaches its target length,
 * or at the end of the document. Then shuffles the rows as with `std::mt19937_64`. Throws
 * `MTL_DATA_NO_SENTENCES` if no document yields a sample (Megatron would loop forever).
 */
function walkSentences(options: WalkSentencesOptions): Uint32Array {
  checkWalk(options);
  const usable = usableDocuments(options);
  if (usable.length === 0) throw noSentences(options);
  // the first pass counts the rows, and the second pass fills them
  const numRows = walkEpochs(options, usable, undefined);
  if (numRows > maximumRows) {
    throw new DataError('MTL_DATA_INDEX_TOO_LARGE', `the documents make ${numRows} samples`, {
      expected: `at most ${maximumRows}`,
      remedy: 'ask for fewer samples, or split the dataset',
    });
  }
  const rows = sharedUint32Array(columns * numRows);
  walkEpochs(options, usable, rows);
  shuffleRows(rows, options.seed);
  return rows;
}

function checkWalk({ minimumSentences, numSamples, seed }: WalkSentencesOptions): void {
  const fail = (what: string, expected: string): never => {
    throw new UsageError('MTL_DATA_MAPPING', what, { expected });
  };
  if (!(minimumSentences >= 1)) fail(`${minimumSentences} sentences in a sample`, '1 or more');
  if (numSamples !== undefined && !(numSamples >= 1 && numSamples <= maximumRows)) {
    fail(`${numSamples} samples are not possible`, `1 to ${maximumRows}`);
  }
  if (!Number.isInteger(seed) || seed < 0 || seed > 0xffffffff) {
    throw new UsageError('MTL_DATA_SEED', `the random seed ${seed} is not usable`, {
      expected: 'an integer from 0 to 4294967295',
      exitCode: 2,
    });
  }
}

function usableDocuments(options: WalkSentencesOptions): Int32Array {
  const { documentIndices, minimumSentences } = options;
  const usable = new Int32Array(Math.max(0, documentIndices.length - 1));
  let count = 0;
  for (let document = 0; document + 1 < documentIndices.length; document++) {
    const numSentences = documentIndices[document + 1]! - documentIndices[document]!;
    if (numSentences >= minimumSentences && !isTooLong(options, document)) usable[count++] = document;
  }
  return usable.subarray(0, count);
}

/** How many documents a split has, and why some yield no samples. */
export interface DocumentCounts {
  readonly numDocuments: number;
  /** How many documents yield no samples because they have fewer sentences than a sample needs. */
  readonly numWithFewSentences: number;
  /**
   * How many documents yield no samples because a sentence has more than 512 tokens, as in Megatron. Such
   * sentences are often long tables and lists.
   */
  readonly numWithLongSentence: number;
}

/** Counts all documents, and the documents that yield no samples. */
export function countDocuments(
  options: Pick<SentenceDocuments, 'documentIndices' | 'sizes' | 'minimumSentences'>,
): DocumentCounts {
  const { documentIndices, minimumSentences } = options;
  const numDocuments = Math.max(0, documentIndices.length - 1);
  let numWithFewSentences = 0;
  let numWithLongSentence = 0;
  for (let document = 0; document < numDocuments; document++) {
    if (documentIndices[document + 1]! - documentIndices[document]! < minimumSentences) numWithFewSentences++;
    else if (isTooLong(options, document)) numWithLongSentence++;
  }
  return { numDocuments, numWithFewSentences, numWithLongSentence };
}

function isTooLong(
  { documentIndices, sizes }: Pick<SentenceDocuments, 'documentIndices' | 'sizes'>,
  document: number,
): boolean {
  const first = documentIndices[document]!;
  const end = documentIndices[document + 1]!;
  if (end - first === 1) return false;
  for (let sentence = first; sentence < end; sentence++) {
    if (sizes[sentence]! > longestSentence) return true;
  }
  return false;
}

/** Processes all epochs. Returns the number of samples. If `rows` is given, also writes the samples to it. */
function walkEpochs(
  options: WalkSentencesOptions,
  usable: Int32Array,
  rows: Uint32Array | undefined,
): number {
  const { documentIndices, sizes, numSamples, minimumSentences } = options;
  const drawTarget = options.start();
  let count = 0;
  do {
    for (const document of usable) {
      const end = documentIndices[document + 1]!;
      let start = documentIndices[document]!;
      let target = drawTarget();
      let length = 0;
      for (let sentence = start; sentence < end; sentence++) {
        length += sizes[sentence]!;
        const remaining = end - sentence - 1;
        const enough = length >= target && sentence + 1 - start >= minimumSentences;
        // a sample must either leave at least two sentences for the next sample, or use all remaining
        // sentences
        if (remaining > 0 && !(enough && remaining >= 2)) continue;
        if (rows !== undefined) {
          rows[columns * count] = start;
          rows[columns * count + 1] = sentence + 1;
          rows[columns * count + 2] = target;
        }
        count++;
        start = sentence + 1;
        target = drawTarget();
        length = 0;
      }
    }
  } while (numSamples !== undefined && count < numSamples && count <= maximumRows);
  return count;
}

/**
 * Shuffles rows with the Fisher-Yates algorithm, from the end. The random numbers are the same as
 * `std::mt19937_64(seed + 1)` modulo i + 1 in C++.
 */
function shuffleRows(rows: Uint32Array, seed: number): void {
  const random = new MersenneTwister64(seed + 1);
  for (let i = rows.length / columns - 1; i > 0; i--) {
    const j = random.modulo(i + 1);
    for (let column = 0; column < columns; column++) {
      const kept = rows[columns * i + column]!;
      rows[columns * i + column] = rows[columns * j + column]!;
      rows[columns * j + column] = kept;
    }
  }
}

function noSentences(options: WalkSentencesOptions): DataError {
  const { minimumSentences } = options;
  const { numDocuments, numWithFewSentences, numWithLongSentence } = countDocuments(options);
  const sentences = minimumSentences === 1 ? 'a sentence' : `${minimumSentences} sentences`;
  return new DataError(
    'MTL_DATA_NO_SENTENCES',
    `none of ${numDocuments} documents can give a sample: ${numWithFewSentences} have fewer than ${sentences}, ` +
      `${numWithLongSentence} have a sentence longer than ${longestSentence} tokens`,
    {
      expected: `documents of ${sentences} or more, each of at most ${longestSentence} tokens`,
      remedy:
        'prepare the corpus with mtl data prepare --split-sentences (in plain text, --text-documents file makes ' +
        'each file one document)' +
        // BERT's samples consist of two segments, unless the model has no sentence-order head
        (minimumSentences > 1 && numWithFewSentences > 0
          ? ', train without sentence order (--bert-no-binary-head)'
          : '') +
        ', or give this part a larger share with --split',
    },
  );
}

/**
 * Returns a description of the defect in a cached mapping, or undefined. Every row must be inside one
 * document of the split, with enough sentences and a possible target length. There must be enough rows.
 */
export function checkSentenceMapping(
  options: SentenceMappingOptions & { readonly mapping: Uint32Array },
): string | undefined {
  const { documentIndices, numSamples = 1, maximumLength, minimumSentences, mapping } = options;
  const numRows = mapping.length / 3;
  if (numRows < numSamples) return `sample_index.npy holds ${numRows} samples, not ${numSamples}`;
  for (let row = 0; row < numRows; row++) {
    const start = mapping[3 * row]!;
    const end = mapping[3 * row + 1]!;
    const target = mapping[3 * row + 2]!;
    if (end < start + minimumSentences || end > endOfDocument(documentIndices, start)) {
      return `sample_index.npy, row ${row}: sentences ${start} to ${end} do not belong to a sample of this part`;
    }
    if (target < 2 || target > maximumLength) {
      return `sample_index.npy, row ${row}: the target length ${target} is not one of 2 to ${maximumLength}`;
    }
  }
  return undefined;
}

/** Returns the end of the document that contains the given sentence; -1 if no document contains it. */
function endOfDocument(documentIndices: ArrayLike<number>, sentence: number): number {
  if (documentIndices.length < 2 || sentence < documentIndices[0]!) return -1;
  // Finds the first boundary after the sentence.
  let low = 0;
  let high = documentIndices.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (documentIndices[middle]! > sentence) high = middle;
    else low = middle + 1;
  }
  return documentIndices[low] ?? -1;
}

/** The range of a sample's sentences. */
interface SampleRange {
  readonly firstSentence: number;
  readonly endSentence: number;
  readonly targetLength: number;
}

/** The sentences of a sample. */
interface SampleSentences extends SampleRange {
  /** int32: the tokens of all the sample's sentences. Valid until the next sample is read. */
  readonly tokens: Int32Array;
}

/** Reads the sentences of samples. Each sample needs only a single read from the file. */
export class SentenceReader {
  readonly #indexed: IndexedDataset;
  /** uint32 [N, 3]: each sample's first sentence, end sentence and target length. */
  readonly #mapping: Uint32Array;
  readonly #vocabularySize: number;
  #tokens = new Int32Array(4096);

  constructor(options: { indexed: IndexedDataset; mapping: Uint32Array; vocabularySize: number }) {
    this.#indexed = options.indexed;
    this.#mapping = options.mapping;
    this.#vocabularySize = options.vocabularySize;
  }

  get prefix(): string {
    return this.#indexed.prefix;
  }

  get numSamples(): number {
    return this.#mapping.length / 3;
  }

  /** Returns the total number of tokens in the sentences [first, end). */
  countTokens(sentences: { readonly first: number; readonly end: number }): number {
    return this.#indexed.countTokens(sentences);
  }

  /**
   * Returns the range of sentences that a sample covers, using only the index. Throws
   * `MTL_DATA_OUT_OF_RANGE`.
   */
  findRange(sample: number): SampleRange {
    const firstSentence = this.#mapping[3 * sample];
    if (firstSentence === undefined) {
      throw new UsageError('MTL_DATA_OUT_OF_RANGE', `sample ${sample} does not exist`, {
        expected: `0 to ${this.numSamples - 1}`,
      });
    }
    const [endSentence, targetLength] = [this.#mapping[3 * sample + 1]!, this.#mapping[3 * sample + 2]!];
    return { firstSentence, endSentence, targetLength };
  }

  /**
   * Returns the index of the document that contains a sample's sentences. A sample never spans several
   * documents.
   */
  findDocument(sample: number): number {
    const { firstSentence } = this.findRange(sample);
    const ends = this.#indexed.documentIndices;
    // finds the last document that starts at or before the sentence, because earlier documents with the same
    // start are empty
    let [low, high] = [0, ends.length - 2];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (ends[middle]! <= firstSentence) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /**
   * Reads a sample's sentences. Throws `MTL_DATA_OUT_OF_RANGE`, or `MTL_DATA_TOKEN_OUT_OF_VOCABULARY`, whose
   * message names the position of the token.
   */
  read(sample: number): SampleSentences {
    const range = this.findRange(sample);
    const { firstSentence: first, endSentence: end } = range;
    const length = this.#indexed.countTokens({ first, end });
    if (length > this.#tokens.length) this.#tokens = new Int32Array(2 * length);
    this.#indexed.copySequences({ first, end, target: this.#tokens });
    const tokens = this.#tokens.subarray(0, length);
    for (let i = 0; i < length; i++) {
      // `>>> 0` turns negative tokens into large numbers, so that one comparison detects both kinds of errors
      if (tokens[i]! >>> 0 >= this.#vocabularySize) this.#refuse({ first, position: i, token: tokens[i]! });
    }
    return { tokens, ...range };
  }

  close(): void {
    this.#indexed.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #refuse({ first, position, token }: { first: number; position: number; token: number }): never {
    const { prefix, sequenceLengths } = this.#indexed;
    let sequence = first;
    let offset = position;
    while (offset >= sequenceLengths[sequence]!) offset -= sequenceLengths[sequence++]!;
    throw new DataError(
      'MTL_DATA_TOKEN_OUT_OF_VOCABULARY',
      `${prefix}: sequence ${sequence}, position ${offset} holds token ${token}`,
      {
        expected: `integers from 0 to ${this.#vocabularySize - 1}`,
        remedy: 'train with the tokenizer that wrote the dataset, or prepare the dataset again with this one',
      },
    );
  }
}
