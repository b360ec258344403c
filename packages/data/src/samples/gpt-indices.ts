import { DataError } from '@mtl/errors';
import { sharedInt32Array, sharedUint32Array } from '../files/typed-arrays.js';
import { RandomState } from '../random/random-state.js';

// In the shapes below, L is the sequence length, E the number of epochs, N the number of samples, and T the
// number of tokens in one epoch.

/** Documents, and the settings for their samples. */
interface GptIndicesOptions {
  /**
   * int32: how many tokens each sequence of the dataset has. In a GPT dataset, each sequence is a document.
   */
  readonly sizes: Int32Array;
  /** The sequences [first, end) of this split. */
  readonly documents: { readonly first: number; readonly end: number };
  /** How many samples will be requested. If it is undefined, the indices cover exactly one epoch. */
  readonly numSamples?: number | undefined;
  readonly sequenceLength: number;
  readonly seed: number;
  /**
   * True (default) to omit the last sample if it is incomplete. Megatron keeps it only in validation, and
   * only on request.
   */
  readonly dropLast?: boolean;
}

/** The sizes of the indices. The last epoch may be shuffled separately. */
interface GptIndexPlan {
  readonly tokensPerEpoch: number;
  readonly numEpochs: number;
  readonly numSamples: number;
  /** True if the last epoch is shuffled separately, because less than 80 % of it is used. */
  readonly separateFinalEpoch: boolean;
  /** How many samples come before the last epoch; N if the last epoch is not shuffled separately. */
  readonly numSamplesBeforeFinalEpoch: number;
}

/** Megatron's three GPT indices. */
interface GptIndices {
  readonly plan: GptIndexPlan;
  /** int32 [E * documents]: the sequence indices in reading order. */
  readonly documentIndex: Int32Array;
  /** int32 [N + 1, 2]: where each sample starts, as a position in the document index and a token offset. */
  readonly sampleIndex: Int32Array;
  /** uint32 [N]: the row of the sample index that sample i uses. */
  readonly shuffleIndex: Uint32Array;
}

/**
 * Computes how many epochs and samples there are, like Megatron-Core's GPTDataset. This is fast and uses no
 * random numbers.
 */
export function planGptIndices(options: GptIndicesOptions): GptIndexPlan {
  const { sizes, documents, numSamples: wanted, sequenceLength, dropLast = true } = options;
  let tokensPerEpoch = 0;
  for (let i = documents.first; i < documents.end; i++) tokensPerEpoch += sizes[i]!;
  if (tokensPerEpoch === 0) {
    throw new DataError('MTL_DATA_NO_TOKENS', 'the documents of this split have no tokens', {
      remedy: 'give this split a larger share with --split, or add documents',
    });
  }
  const numEpochs =
    wanted === undefined ? 1 : Math.max(1, Math.ceil((wanted * sequenceLength + 1) / tokensPerEpoch));
  const samplesIn = (epochs: number) => Math.floor((epochs * tokensPerEpoch - 1) / sequenceLength);
  const numSamples = dropLast
    ? samplesIn(numEpochs)
    : // Megatron computes this quotient in float32; samples beyond the available tokens are padded.
      Math.ceil(Math.fround(Math.fround(numEpochs * tokensPerEpoch - 1) / Math.fround(sequenceLength)));
  if (numSamples < 1) {
    throw new DataError(
      'MTL_DATA_TOO_FEW_TOKENS',
      `this split has ${tokensPerEpoch} tokens, less than one sample`,
      {
        expected: `at least ${sequenceLength + 1} tokens (sequence length ${sequenceLength} and one more)`,
        remedy: 'shorten --seq-length, give this split a larger share with --split, or add documents',
      },
    );
  }
  let separateFinalEpoch = false;
  let numSamplesBeforeFinalEpoch = numSamples;
  if (wanted !== undefined && numEpochs > 1) {
    const before = samplesIn(numEpochs - 1);
    separateFinalEpoch = wanted - before < Math.trunc(0.8 * samplesIn(1));
    if (separateFinalEpoch) numSamplesBeforeFinalEpoch = before;
  }
  return { tokensPerEpoch, numEpochs, numSamples, separateFinalEpoch, numSamplesBeforeFinalEpoch };
}

/**
 * Builds the document, sample and shuffle indices, which equal Megatron-Core's bit by bit. A single
 * `numpy.random.RandomState(seed)` shuffles first the documents, then the samples.
 */
export function buildGptIndices(options: GptIndicesOptions): GptIndices {
  const { sizes, documents, sequenceLength, seed } = options;
  const plan = planGptIndices(options);
  checkCounts(plan, documents);
  const random = new RandomState(seed);
  const documentIndex = buildDocumentIndex({ documents, plan, random });
  const sampleIndex = buildSampleIndex({ sizes, documentIndex, numSamples: plan.numSamples, sequenceLength });
  const shuffleIndex = buildShuffleIndex({ plan, random });
  return { plan, documentIndex, sampleIndex, shuffleIndex };
}

function checkCounts(plan: GptIndexPlan, documents: GptIndicesOptions['documents']): void {
  const entries = plan.numEpochs * (documents.end - documents.first);
  // beyond these limits, Megatron uses wider element types, and the index would not fit into a single typed
  // array
  if (entries > 0x7fffffff || plan.numSamples >= 0x7fffffff) {
    throw new DataError(
      'MTL_DATA_INDEX_TOO_LARGE',
      `${plan.numEpochs} epochs make ${entries} documents and ${plan.numSamples} samples`,
      { expected: 'fewer than 2147483647 of each', remedy: 'ask for fewer samples, or split the dataset' },
    );
  }
}

function buildDocumentIndex(options: {
  documents: GptIndicesOptions['documents'];
  plan: GptIndexPlan;
  random: RandomState;
}): Int32Array {
  const { documents, plan, random } = options;
  const perEpoch = documents.end - documents.first;
  const index = sharedInt32Array(plan.numEpochs * perEpoch);
  for (let i = 0; i < index.length; i++) index[i] = documents.first + (i % perEpoch);
  if (plan.separateFinalEpoch) {
    const boundary = index.length - perEpoch;
    random.shuffle(index.subarray(0, boundary));
    random.shuffle(index.subarray(boundary));
  } else {
    random.shuffle(index);
  }
  return index;
}

function buildSampleIndex(options: {
  sizes: Int32Array;
  documentIndex: Int32Array;
  numSamples: number;
  sequenceLength: number;
}): Int32Array {
  const { sizes, documentIndex, numSamples, sequenceLength } = options;
  const index = sharedInt32Array(2 * (numSamples + 1));
  const lastPosition = documentIndex.length - 1;
  let position = 0;
  let offset = 0;
  for (let row = 1; row <= numSamples; row++) {
    // a sample takes L + 1 tokens, but its last token is also the first token of the next sample
    let remaining = sequenceLength + 1;
    for (;;) {
      const available = sizes[documentIndex[position]!]! - offset;
      if (available >= remaining) {
        offset += remaining - 1;
        break;
      }
      remaining -= available;
      if (position === lastPosition) {
        // Only an incomplete last sample, for which no tokens remain, reaches this line.
        offset = sizes[documentIndex[position]!]! - 1;
        break;
      }
      position++;
      offset = 0;
    }
    index[2 * row] = position;
    index[2 * row + 1] = offset;
  }
  return index;
}

function buildShuffleIndex({ plan, random }: { plan: GptIndexPlan; random: RandomState }): Uint32Array {
  const index = sharedUint32Array(plan.numSamples);
  for (let i = 0; i < index.length; i++) index[i] = i;
  const boundary = plan.numSamplesBeforeFinalEpoch;
  random.shuffle(index.subarray(0, boundary));
  if (boundary < index.length) random.shuffle(index.subarray(boundary));
  return index;
}

/** Cached indices, and the settings with which they must agree. */
interface CheckGptIndicesOptions {
  readonly sizes: Int32Array;
  readonly documents: { readonly first: number; readonly end: number };
  readonly plan: GptIndexPlan;
  readonly sequenceLength: number;
  readonly documentIndex: Int32Array;
  readonly sampleIndex: Int32Array;
  readonly shuffleIndex: Uint32Array;
}

/**
 * Checks indices that were read from a cache. Returns a description of the first defect, or undefined. Every
 * document must occur once per epoch, and every sample exactly once. Every sample must have L + 1 tokens and
 * start at the last token of the previous sample.
 */
export function checkGptIndices(options: CheckGptIndicesOptions): string | undefined {
  return checkDocumentIndex(options) ?? checkSampleIndex(options) ?? checkShuffleIndex(options);
}

function checkDocumentIndex({ documents, plan, documentIndex }: CheckGptIndicesOptions): string | undefined {
  const seen = new Uint32Array(documents.end - documents.first);
  for (const document of documentIndex) {
    if (document < documents.first || document >= documents.end) {
      return `document_index.npy names document ${document}, which is not in this part`;
    }
    seen[document - documents.first]!++;
  }
  const wrong = seen.findIndex((count) => count !== plan.numEpochs);
  if (wrong < 0) return undefined;
  return `document_index.npy names document ${documents.first + wrong} ${seen[wrong]} times, not ${plan.numEpochs}`;
}

function checkSampleIndex(options: CheckGptIndicesOptions): string | undefined {
  const { sizes, plan, sequenceLength, documentIndex, sampleIndex } = options;
  if (sampleIndex[0] !== 0 || sampleIndex[1] !== 0)
    return 'sample_index.npy does not start at the first token';
  const totalTokens = plan.numEpochs * plan.tokensPerEpoch;
  let position = 0;
  let before = 0;
  for (let row = 1; row <= plan.numSamples; row++) {
    const rowPosition = sampleIndex[2 * row]!;
    if (rowPosition < position || rowPosition >= documentIndex.length) {
      return `sample_index.npy, row ${row}: position ${rowPosition} is out of order`;
    }
    while (position < rowPosition) before += sizes[documentIndex[position++]!]!;
    // An incomplete last sample ends at the last token, as do the extra rows that float32 rounding causes.
    const expected = Math.min(row * sequenceLength, totalTokens - 1);
    if (before + sampleIndex[2 * row + 1]! !== expected) {
      return `sample_index.npy, row ${row}: it does not start at token ${expected}`;
    }
  }
  return undefined;
}

function checkShuffleIndex({ plan, shuffleIndex }: CheckGptIndicesOptions): string | undefined {
  const seen = new Uint8Array(plan.numSamples);
  for (const row of shuffleIndex) {
    if (row >= plan.numSamples || seen[row] === 1) return `shuffle_index.npy is not a permutation: ${row}`;
    seen[row] = 1;
  }
  return undefined;
}
