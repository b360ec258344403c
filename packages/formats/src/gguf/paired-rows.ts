import { composedRuns, type ValueRun } from '../huggingface/value-runs.js';
import { mappingOfRuns, type WeightMapping } from '../huggingface/weight-mapping.js';

interface Heads {
  readonly numHeads: number;
  /** D, the number of rows in a head. */
  readonly headSize: number;
}

/**
 * Returns the rows of all heads as runs of values, in file order. Rows i and i + D / 2 of a head, which are
 * rotated together, become adjacent.
 */
function runsOfPairs({ numHeads, headSize }: Heads, numValues: number): readonly ValueRun[] {
  const length = numValues / (numHeads * headSize);
  const half = headSize / 2;
  return Array.from({ length: numHeads * headSize }, (_, row) => {
    const within = row % headSize;
    const paired = 2 * (within % half) + Math.floor(within / half);
    return { from: (row - within + paired) * length, to: row * length, length };
  });
}

/**
 * Returns a mapping that reorders the rows of queries and keys for llama.cpp's architecture `llama`. In each
 * head, `llama` rotates the features 2i and 2i + 1 together, whereas our models and the transformers library
 * rotate features i and i + D / 2 together. The reordering does not change attention scores.
 *
 * @param mapping the mapping for the transformers library, which must consist of runs
 * @param options.heads the number of query heads and of key heads
 */
export function pairedRows(
  mapping: WeightMapping,
  { heads, headSize }: { readonly heads: readonly number[]; readonly headSize: number },
): WeightMapping {
  const listRuns = (source: number): readonly ValueRun[] => {
    const runs = mapping.listRuns!(source);
    const numHeads = heads[source];
    if (numHeads === undefined) return runs;
    const numValues = runs.reduce((sum, { length }) => sum + length, 0);
    return composedRuns(runsOfPairs({ numHeads, headSize }, numValues), runs);
  };
  return mappingOfRuns({ ...mapping, listRuns });
}
