import type { WeightMapping } from '../huggingface/weight-mapping.js';

interface Heads {
  readonly numHeads: number;
  /** D: rows of a head. */
  readonly headSize: number;
}

/**
 * Reorders the rows of each head in place: rows i and i + D / 2, a pair of rotated features, become
 * neighbours, or the other way around.
 */
function reorder(values: Float32Array, { numHeads, headSize }: Heads, direction: 'pair' | 'part'): void {
  const length = values.length / (numHeads * headSize);
  const half = headSize / 2;
  const head = new Float32Array(headSize * length);
  for (let start = 0; start < values.length; start += head.length) {
    head.set(values.subarray(start, start + head.length));
    for (let row = 0; row < headSize; row++) {
      const paired = 2 * (row % half) + Math.floor(row / half);
      const [from, to] = direction === 'pair' ? [row, paired] : [paired, row];
      values.set(head.subarray(from * length, (from + 1) * length), start + to * length);
    }
  }
}

/**
 * Returns the mapping of queries, keys and values for the architecture `llama` of llama.cpp, which rotates
 * neighbouring features 2i and 2i + 1 of a head, where our models and the transformers library rotate i and
 * i + D / 2. The rows of queries and keys are stored in another order, and the scores are the same.
 *
 * @param options.heads the number of heads of queries, and of keys
 */
export function pairedRows(
  mapping: WeightMapping,
  { heads, headSize }: { readonly heads: readonly number[]; readonly headSize: number },
): WeightMapping {
  return {
    ...mapping,
    toLogical: (sources, allocate) => {
      for (const [index, numHeads] of heads.entries())
        reorder(sources[index]!, { numHeads, headSize }, 'part');
      return mapping.toLogical(sources, allocate);
    },
    toSources: (logical, allocate) => {
      const sources = mapping.toSources(logical, allocate);
      for (const [index, numHeads] of heads.entries())
        reorder(sources[index]!, { numHeads, headSize }, 'pair');
      return sources;
    },
  };
}
