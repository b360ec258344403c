import {
  type LinearGeluOptions,
  type LinearOptions,
  linear,
  linearGelu,
  type Tape,
  type Variable,
} from '@mtl/autograd';
import { checkedOperation } from '@mtl/kernels';
import { regionExchanges } from './region-exchanges.js';
import type { TensorParallel } from './tensor-parallel.js';

export interface ColumnParallelLinearOptions extends Pick<LinearOptions, 'input' | 'weight' | 'bias'> {
  readonly tensorParallel: TensorParallel | undefined;
}

/**
 * The beginning of a tensor-parallel region: output [S, B, O / t] = input weight^T + bias, where weight
 * [O / t, I] and bias [O / t] are this process's rows (Shoeybi et al. 2019, section 3: the columns of the
 * transposed weight).
 *
 * Without sequence parallelism the input [S, B, I] is the same everywhere. With it the input is this
 * process's [S / t, B, I]; the whole is gathered for the products of forward and of the weight gradient, and
 * only the shard is kept in between. The sum of the input gradients is on its way while the weight gradient
 * is computed, and so is the second gathering while the input gradient is.
 */
export const columnParallelLinear = checkedOperation(
  'columnParallelLinear',
  (tape: Tape, options: ColumnParallelLinearOptions): Variable => {
    const { tensorParallel, ...product } = options;
    const { enter, leave } = regionExchanges(tensorParallel);
    return linear(tape, { ...product, exchanges: { gatherInput: enter, reduceInputGradient: leave } });
  },
);

export interface ColumnParallelLinearGeluOptions
  extends Pick<LinearGeluOptions, 'input' | 'weight' | 'bias' | 'kind'> {
  readonly tensorParallel: TensorParallel | undefined;
}

/** GELU of `columnParallelLinear`, in the same pass where the device can. */
export const columnParallelLinearGelu = checkedOperation(
  'columnParallelLinearGelu',
  (tape: Tape, options: ColumnParallelLinearGeluOptions): Variable => {
    const { tensorParallel, ...product } = options;
    const { enter, leave } = regionExchanges(tensorParallel);
    return linearGelu(tape, { ...product, exchanges: { gatherInput: enter, reduceInputGradient: leave } });
  },
);
