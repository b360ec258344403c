import { DataError } from '@mtl/errors';
import { IndexedDataset } from './indexed-dataset.js';
import { type TokenDtype, tokenDtypes } from './token-dtype.js';

/** The properties of a dataset that its index alone determines. */
export interface IndexedDatasetInspection {
  readonly prefix: string;
  readonly dtype: TokenDtype;
  readonly numDocuments: number;
  readonly numSequences: number;
  readonly numTokens: number;
  readonly numEmptyDocuments: number;
  /**
   * The length of the shortest and of the longest sequence in tokens, and the mean length. All are 0 in a
   * dataset without sequences.
   */
  readonly shortestSequence: number;
  readonly longestSequence: number;
  readonly meanSequenceLength: number;
  readonly multimodal: boolean;
  readonly binBytes: number;
  readonly idxBytes: number;
}

/** Returns a summary of a dataset without reading its tokens. `source` is an open dataset or a prefix. */
export function inspectIndexedDataset(source: string | IndexedDataset): IndexedDatasetInspection {
  if (typeof source === 'string') {
    using dataset = IndexedDataset.open(source);
    return inspectIndexedDataset(dataset);
  }
  const { sequenceLengths, documentIndices } = source;
  let shortest = sequenceLengths.length > 0 ? Number.POSITIVE_INFINITY : 0;
  let longest = 0;
  for (const length of sequenceLengths) {
    if (length < shortest) shortest = length;
    if (length > longest) longest = length;
  }
  let numEmptyDocuments = 0;
  for (let i = 1; i < documentIndices.length; i++) {
    if (documentIndices[i] === documentIndices[i - 1]) numEmptyDocuments++;
  }
  return {
    prefix: source.prefix,
    dtype: source.dtype,
    numDocuments: source.numDocuments,
    numSequences: source.numSequences,
    numTokens: source.numTokens,
    numEmptyDocuments,
    shortestSequence: shortest,
    longestSequence: longest,
    meanSequenceLength: source.numSequences > 0 ? source.numTokens / source.numSequences : 0,
    multimodal: source.sequenceModes !== undefined,
    binBytes: source.binBytes,
    idxBytes: source.idxBytes,
  };
}

const chunkTokens = 1 << 18;

/** Options of `verifyIndexedDataset`. */
interface VerifyIndexedDatasetOptions {
  readonly prefix: string;
  /**
   * The vocabulary size. A token that is not below the vocabulary size is an error. If it is undefined, only
   * negative and fractional tokens are errors.
   */
  readonly vocabularySize?: number;
  /** Called repeatedly with the number of tokens checked so far. */
  readonly onProgress?: (progress: { readonly tokens: number; readonly totalTokens: number }) => void;
}

/** The results of checking a dataset's structure and every token. */
interface IndexedDatasetVerification extends IndexedDatasetInspection {
  /** The smallest and the largest token; undefined in a dataset without tokens. */
  readonly smallestToken: number | undefined;
  readonly largestToken: number | undefined;
}

/**
 * Reads a whole dataset and checks its structure and every token. Throws `MTL_DATA_INDEXED_DATASET` for an
 * invalid file, and `MTL_DATA_TOKEN_OUT_OF_VOCABULARY`, whose message names the document and position of the
 * first bad token.
 */
export function verifyIndexedDataset(options: VerifyIndexedDatasetOptions): IndexedDatasetVerification {
  const { prefix, vocabularySize = Number.POSITIVE_INFINITY, onProgress } = options;
  using dataset = IndexedDataset.open(prefix);
  const chunk = tokenDtypes[dataset.dtype].create(chunkTokens);
  let smallest = Number.POSITIVE_INFINITY;
  let largest = Number.NEGATIVE_INFINITY;
  for (let done = 0; done < dataset.numTokens; ) {
    const bytes = dataset.readBytes(chunk, done * chunk.BYTES_PER_ELEMENT);
    const count = Math.floor(bytes / chunk.BYTES_PER_ELEMENT);
    if (count === 0)
      throw new DataError('MTL_DATA_INDEXED_DATASET', `${dataset.binPath}: became shorter while read`);
    for (let i = 0; i < count; i++) {
      const token = Number(chunk[i]);
      if (!(token >= 0 && token < vocabularySize) || token % 1 !== 0) {
        throw outOfVocabulary({ dataset, tokenNumber: done + i, token, vocabularySize });
      }
      if (token < smallest) smallest = token;
      if (token > largest) largest = token;
    }
    done += count;
    onProgress?.({ tokens: done, totalTokens: dataset.numTokens });
  }
  const empty = dataset.numTokens === 0;
  return {
    ...inspectIndexedDataset(dataset),
    smallestToken: empty ? undefined : smallest,
    largestToken: empty ? undefined : largest,
  };
}

function outOfVocabulary(options: {
  dataset: IndexedDataset;
  tokenNumber: number;
  token: number;
  vocabularySize: number;
}): DataError {
  const { dataset, tokenNumber, token, vocabularySize } = options;
  let sequence = 0;
  let before = 0;
  while (before + dataset.sequenceLengths[sequence]! <= tokenNumber)
    before += dataset.sequenceLengths[sequence++]!;
  let document = 0;
  while (document < dataset.numDocuments && dataset.documentIndices[document + 1]! <= sequence) document++;
  let documentStart = 0;
  const firstSequence = dataset.documentIndices[document] ?? 0;
  for (let i = 0; i < firstSequence; i++) documentStart += dataset.sequenceLengths[i]!;
  const position = tokenNumber - documentStart;
  const limit = Number.isFinite(vocabularySize)
    ? `integers from 0 to ${vocabularySize - 1}`
    : 'integers from 0 on';
  return new DataError(
    'MTL_DATA_TOKEN_OUT_OF_VOCABULARY',
    `${dataset.prefix}: document ${document}, position ${position} holds token ${token}`,
    {
      expected: limit,
      remedy: 'train with the tokenizer that wrote the dataset, or prepare the dataset again with this one',
      details: { prefix: dataset.prefix, document, sequence, position, token },
    },
  );
}
