import {
  adaptedLinear,
  type LinearAdapters,
  type LinearGeluOptions,
  type LinearOptions,
  linear,
  linearGelu,
  type Tape,
  type Variable,
} from '@mtl/autograd';
import { checkedOperation } from '@mtl/kernels';
import { regionCollectives } from './region-collectives.js';
import type { TensorParallel } from './tensor-parallel.js';

export interface ColumnParallelLinearOptions extends Pick<LinearOptions, 'input' | 'weight' | 'bias'> {
  /** Of `columnParallelAdapter`. Default: none. */
  readonly adapters?: LinearAdapters | undefined;
  readonly tensorParallel: TensorParallel | undefined;
}

/**
 * The beginning of a tensor-parallel region: output [S, B, O / t] = input weight^T + bias, where weight
 * [O / t, I] and bias [O / t] are this process's rows (Shoeybi et al. 2019, section 3: the columns of the
 * transposed weight).
 *
 * Without sequence parallelism the input [S, B, I] is the same everywhere. With it the input is this
 * process's [S / t, B, I]; it is all-gathered for the matmuls of forward and of the weight gradient, and
 * only the shard is kept in between. The reduction of the input gradients overlaps with the matmul of the
 * weight gradient, and the second all-gather with the matmul of the input gradient.
 */
export const columnParallelLinear = checkedOperation(
  'columnParallelLinear',
  (tape: Tape, options: ColumnParallelLinearOptions): Variable => {
    const { tensorParallel, adapters, ...operands } = options;
    const { enter, leave } = regionCollectives(tensorParallel);
    const collectives = { gatherInput: enter, reduceInputGradient: leave };
    if (adapters !== undefined) return adaptedLinear(tape, { ...operands, adapters, collectives });
    return linear(tape, { ...operands, collectives });
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
    const { tensorParallel, ...operands } = options;
    const { enter, leave } = regionCollectives(tensorParallel);
    return linearGelu(tape, { ...operands, collectives: { gatherInput: enter, reduceInputGradient: leave } });
  },
);
