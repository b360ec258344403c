import type { Collective } from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import { Tensor } from '@mtl/kernels';
import { isSharded, type TensorParallel } from './tensor-parallel.js';

/**
 * The collectives at the borders of a tensor-parallel region. `enter` is applied to activations when forward
 * enters the region, and to gradients when backward enters it. `leave` sums the partial results of the
 * processes when the region ends.
 *
 * Without sequence parallelism, `enter` does nothing and `leave` is an all-reduce (g in forward and f in
 * backward in Shoeybi et al. 2019, section 3). With sequence parallelism, `enter` is an all-gather along the
 * sequence and `leave` is a reduce-scatter (g and g-bar in Korthikanti et al. 2022, section 4.2.2). In the
 * layout [S, B, H], shards of the sequence are contiguous.
 */
export interface RegionCollectives {
  readonly enter: Collective | undefined;
  readonly leave: Collective | undefined;
}

export function regionCollectives(tensorParallel: TensorParallel | undefined): RegionCollectives {
  if (!isSharded(tensorParallel)) return { enter: undefined, leave: undefined };
  const { group, sequenceParallel } = tensorParallel;
  if (!sequenceParallel) return { enter: undefined, leave: allReduce(group) };
  return { enter: gatherSequence(group), leave: reduceScatterSequence(group) };
}

/** Returns an in-place all-reduce over the ranks; undefined if nothing is sharded. */
export const sumOverRanks = (tensorParallel: TensorParallel | undefined): Collective | undefined =>
  isSharded(tensorParallel) ? allReduce(tensorParallel.group) : undefined;

/**
 * Returns an all-reduce that sums in place. This is safe because `leave` receives only matmul outputs without
 * further readers.
 */
function allReduce(group: ProcessGroup): Collective {
  return (tensor) => {
    const sum = tensor.view({ shape: tensor.shape });
    const work = group.allReduce(sum);
    return {
      wait: () => {
        work.wait();
        return sum;
      },
    };
  };
}

/** Returns a collective that gathers the shards [S / t, ...] of all processes to [S, ...]. */
function gatherSequence(group: ProcessGroup): Collective {
  return (input) => {
    const shape = [input.dim(0) * group.size, ...input.shape.slice(1)];
    const output = Tensor.empty({ shape, dtype: input.dtype, device: input.device });
    const work = group.allGather({ output, input });
    return {
      wait: () => {
        work.wait();
        return output;
      },
    };
  };
}

/**
 * Returns a collective that sums [S, ...] over processes and returns this process's shard [S / t, ...] of the
 * sum.
 */
function reduceScatterSequence(group: ProcessGroup): Collective {
  return (input) => {
    const shape = [input.dim(0) / group.size, ...input.shape.slice(1)];
    const output = Tensor.empty({ shape, dtype: input.dtype, device: input.device });
    const work = group.reduceScatter({ output, input });
    return {
      wait: () => {
        work.wait();
        return output;
      },
    };
  };
}
