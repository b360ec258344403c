import type { Exchange } from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import { Tensor } from '@mtl/kernels';
import { isSpread } from './is-spread.js';
import type { TensorParallel } from './tensor-parallel.js';

/**
 * The borders of a tensor-parallel region. `enter` is what happens to activations where a region begins, and
 * to gradients where backward enters it from behind; `leave` sums the parts that the processes have computed.
 *
 * Without sequence parallelism `enter` is nothing and `leave` an all-reduce: forward's f and backward's g of
 * Shoeybi et al. 2019, section 3. With it `enter` is an all-gather along the sequence and `leave` a
 * reduce-scatter: g and g-bar of Korthikanti et al. 2022, section 4.2.2. [S, B, H] makes shards of the
 * sequence contiguous.
 */
export interface RegionExchanges {
  readonly enter: Exchange | undefined;
  readonly leave: Exchange | undefined;
}

export function regionExchanges(tensorParallel: TensorParallel | undefined): RegionExchanges {
  if (!isSpread(tensorParallel)) return { enter: undefined, leave: undefined };
  const { group, sequenceParallel } = tensorParallel;
  if (!sequenceParallel) return { enter: undefined, leave: allReduce(group) };
  return { enter: gatherSequence(group), leave: reduceScatterSequence(group) };
}

/** Sums in place: `leave` is only ever given a product that nobody else reads. */
function allReduce(group: ProcessGroup): Exchange {
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

/** [S / t, ...] of every process to [S, ...]. */
function gatherSequence(group: ProcessGroup): Exchange {
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

/** Parts [S, ...] of a sum to this process's [S / t, ...] of it. */
function reduceScatterSequence(group: ProcessGroup): Exchange {
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
