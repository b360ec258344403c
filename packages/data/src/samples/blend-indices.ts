import { UsageError } from '@mtl/errors';
import { sharedFloat64Array, sharedInt16Array } from '../files/typed-arrays.js';

/** Which sample of which dataset each sample of a blend is. */
export interface BlendIndices {
  /** int16 [size]. */
  readonly datasetIndex: Int16Array;
  /** Exact integers [size] (int64 in the cache file). */
  readonly datasetSampleIndex: Float64Array;
}

/**
 * Megatron's greedy blend: sample k goes to the dataset that lags most behind its weight,
 * argmax of `weight * max(k, 1) - taken`, the first one on ties.
 */
export function buildBlendIndices({
  weights,
  size,
}: {
  weights: readonly number[];
  size: number;
}): BlendIndices {
  return fillGreedily({ weights, size, limits: weights.map(() => Number.POSITIVE_INFINITY) });
}

/** The same rule in proportion to `sizes`, taking exactly as many samples of each dataset as its size. */
export function buildExhaustiveBlendIndices({ sizes }: { sizes: readonly number[] }): BlendIndices {
  const size = sizes.reduce((sum, count) => sum + count, 0);
  return fillGreedily({ weights: sizes.map((count) => count / size), size, limits: sizes });
}

function fillGreedily(options: {
  weights: readonly number[];
  size: number;
  limits: readonly number[];
}): BlendIndices {
  const { weights, size, limits } = options;
  if (weights.length === 0 || weights.length > 32767) {
    throw new UsageError('MTL_DATA_BLEND', `a blend of ${weights.length} datasets`, {
      expected: '1 to 32767 datasets',
    });
  }
  const datasetIndex = sharedInt16Array(size);
  const datasetSampleIndex = sharedFloat64Array(size);
  const taken = new Float64Array(weights.length);
  const weight = Float64Array.from(weights);
  for (let sample = 0; sample < size; sample++) {
    const scale = Math.max(sample, 1);
    let chosen = -1;
    let largest = Number.NEGATIVE_INFINITY;
    for (let i = 0; i < weight.length; i++) {
      const error = weight[i]! * scale - taken[i]!;
      if (error > largest && taken[i]! < limits[i]!) {
        chosen = i;
        largest = error;
      }
    }
    datasetIndex[sample] = chosen;
    datasetSampleIndex[sample] = taken[chosen]!;
    taken[chosen]!++;
  }
  return { datasetIndex, datasetSampleIndex };
}
