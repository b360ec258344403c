import { IndexedDataset } from './indexed-dataset.js';
import type { TokenDtype } from './token-dtype.js';

/** What a dataset looks like, from its index alone. */
export interface IndexedDatasetInspection {
  readonly prefix: string;
  readonly dtype: TokenDtype;
  readonly numDocuments: number;
  readonly numSequences: number;
  readonly numTokens: number;
  readonly numEmptyDocuments: number;
  /** Tokens in the shortest, longest and average sequence (0 without sequences). */
  readonly shortestSequence: number;
  readonly longestSequence: number;
  readonly meanSequenceLength: number;
  readonly multimodal: boolean;
  readonly binBytes: number;
  readonly idxBytes: number;
}

/** Summarises a dataset (an open one or a prefix) without reading its tokens. */
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
