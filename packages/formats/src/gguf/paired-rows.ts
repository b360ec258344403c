import { composedRuns, type ValueRun } from '../huggingface/value-runs.js';
import { mappingOfRuns, type WeightMapping } from '../huggingface/weight-mapping.js';

interface Heads {
  readonly numHeads: number;
  /** D: rows of a head. */
  readonly headSize: number;
}

/**
 * Returns the rows of all heads as runs: rows i and i + D / 2 of a head, a pair of rotated features, are
 * neighbours where they are read.
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
 * Returns the mapping of queries, keys and values for the architecture `llama` of llama.cpp, which rotates
 * neighbouring features 2i and 2i + 1 of a head, where our models and the transformers library rotate i and
 * i + D / 2. The rows of queries and keys are stored in another order, and the scores are the same.
 *
 * @param mapping a mapping of runs
 * @param options.heads the number of heads of queries, and of keys
 */
export function pairedRows(
  mapping: WeightMapping,
  { heads, headSize }: { readonly heads: readonly number[]; readonly headSize: number },
): WeightMapping {
  const runsOf = (source: number): readonly ValueRun[] => {
    const runs = mapping.runsOf!(source);
    const numHeads = heads[source];
    if (numHeads === undefined) return runs;
    const numValues = runs.reduce((sum, { length }) => sum + length, 0);
    return composedRuns(runsOfPairs({ numHeads, headSize }, numValues), runs);
  };
  return mappingOfRuns({ ...mapping, runsOf });
}
