import type { ParameterOptions } from '@mtl/autograd';
import { isSharded, type TensorParallel } from '@mtl/tensor-parallel';

/**
 * What a parameter is that every tensor-parallel process holds whole: counted once in norms; and under
 * sequence parallelism, where each process has seen its part of the sequence only, of a gradient that is a
 * part.
 */
export function wholeOnEveryRank(
  tensorParallel: TensorParallel | undefined,
): Pick<ParameterOptions, 'replicatedOver' | 'partialOver'> {
  if (!isSharded(tensorParallel)) return {};
  return {
    replicatedOver: ['dp', 'tp'],
    ...(tensorParallel.sequenceParallel ? { partialOver: ['tp'] } : {}),
  };
}
