import { DataError, UsageError } from '@mtl/errors';
import type { IndexedDataset } from '../indexed/indexed-dataset.js';

/** The place of the sentences of one sample. */
interface SampleRange {
  readonly firstSentence: number;
  readonly endSentence: number;
  readonly targetLength: number;
}

/** The sentences of one sample. */
interface SampleSentences extends SampleRange {
  /** int32: the tokens of all its sentences; valid until the next one is read. */
  readonly tokens: Int32Array;
}

/** Reads the sentences of samples, one read of the file each. */
export class SentenceReader {
  readonly #indexed: IndexedDataset;
  /** uint32 [N, 3]: first sentence, end sentence, target length. */
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

  /** Returns tokens of the sentences [first, end). */
  tokensOf(sentences: { readonly first: number; readonly end: number }): number {
    return this.#indexed.tokensOfSequences(sentences);
  }

  /** Returns the place of a sample's sentences, by the index alone. Throws `MTL_DATA_OUT_OF_RANGE`. */
  rangeOf(sample: number): SampleRange {
    const firstSentence = this.#mapping[3 * sample];
    if (firstSentence === undefined) {
      throw new UsageError('MTL_DATA_OUT_OF_RANGE', `sample ${sample} does not exist`, {
        expected: `0 to ${this.numSamples - 1}`,
      });
    }
    const [endSentence, targetLength] = [this.#mapping[3 * sample + 1]!, this.#mapping[3 * sample + 2]!];
    return { firstSentence, endSentence, targetLength };
  }

  /** Returns the document of the sentences of a sample, which are never of several. */
  documentOf(sample: number): number {
    const { firstSentence } = this.rangeOf(sample);
    const ends = this.#indexed.documentIndices;
    // the last document that does not begin behind the sentence: empty ones before it begin there, too
    let [low, high] = [0, ends.length - 2];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (ends[middle]! <= firstSentence) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** Throws `MTL_DATA_OUT_OF_RANGE`, and `MTL_DATA_TOKEN_OUT_OF_VOCABULARY` with the place of the token. */
  read(sample: number): SampleSentences {
    const range = this.rangeOf(sample);
    const { firstSentence: first, endSentence: end } = range;
    const length = this.#indexed.tokensOfSequences({ first, end });
    if (length > this.#tokens.length) this.#tokens = new Int32Array(2 * length);
    this.#indexed.copySequences({ first, end, target: this.#tokens });
    const tokens = this.#tokens.subarray(0, length);
    for (let i = 0; i < length; i++) {
      // Negative tokens are large when taken as unsigned.
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
