import type { GptIndexPlan } from './gpt-indices.js';

/** Cached indices and what they must agree with. */
export interface CheckGptIndicesOptions {
  readonly sizes: Int32Array;
  readonly documents: { readonly first: number; readonly end: number };
  readonly plan: GptIndexPlan;
  readonly sequenceLength: number;
  readonly documentIndex: Int32Array;
  readonly sampleIndex: Int32Array;
  readonly shuffleIndex: Uint32Array;
}

/**
 * Says what is wrong with indices read from a cache, or nothing: every document as often as there are epochs,
 * every sample exactly once, every sample L + 1 tokens long and starting where the one before ends.
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
    // The partial last sample (and what float32 rounds up beyond it) ends at the last token.
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
