import type { SentenceMappingOptions } from './sentence-mapping.js';

/**
 * Says what is wrong with a mapping read from a cache, or nothing: every row inside one document of the part,
 * with enough sentences and a possible target, and enough rows.
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
      return `sample_index.npy, row ${row}: sentences ${start} to ${end} are not those of a sample of this part`;
    }
    if (target < 2 || target > maximumLength) {
      return `sample_index.npy, row ${row}: the target length ${target} is not one of 2 to ${maximumLength}`;
    }
  }
  return undefined;
}

/** Where the document of a sentence ends; -1 for a sentence outside. */
function endOfDocument(documentIndices: ArrayLike<number>, sentence: number): number {
  if (documentIndices.length < 2 || sentence < documentIndices[0]!) return -1;
  // The first boundary beyond the sentence.
  let low = 0;
  let high = documentIndices.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (documentIndices[middle]! > sentence) high = middle;
    else low = middle + 1;
  }
  return documentIndices[low] ?? -1;
}
