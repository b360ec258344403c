import {
  adaptedLinear,
  biasDropoutResidual,
  type Dropout,
  type LinearAdapters,
  type LinearOptions,
  linear,
  linearResidual,
  type Parameter,
  type Tape,
  type Variable,
} from '@mtl/autograd';
import { checkedOperation } from '@mtl/kernels';
import { regionCollectives } from './region-collectives.js';
import type { TensorParallel } from './tensor-parallel.js';

export interface RowParallelLinearOptions extends Pick<LinearOptions, 'input' | 'weight'> {
  /** [O], replicated: added once, to the sum. */
  readonly bias?: Parameter | undefined;
  /** Of sum and bias, before the residual is added. Default: none. */
  readonly dropout?: Dropout | undefined;
  /**
   * [S, B, O], or this process's part under sequence parallelism: added once, like the bias. Default: none.
   */
  readonly residual?: Variable | undefined;
  /** Of `rowParallelAdapter`. Default: none. */
  readonly adapters?: LinearAdapters | undefined;
  readonly tensorParallel: TensorParallel | undefined;
}

/**
 * The end of a tensor-parallel region: residual + dropout(sum + bias), the sum over processes of input
 * [S, B, I / t] weight^T, where weight [O, I / t] is this process's columns (Shoeybi et al. 2019, section 3:
 * the rows of the transposed weight).
 * Every process gets the whole sum [S, B, O]; with sequence parallelism its part [S / t, B, O], and the
 * gradient of a bias is then only a part.
 */
export const rowParallelLinear = checkedOperation(
  'rowParallelLinear',
  (tape: Tape, options: RowParallelLinearOptions): Variable => {
    const { tensorParallel, bias, dropout, residual, adapters, ...operands } = options;
    const { enter, leave } = regionCollectives(tensorParallel);
    const isWhole = leave === undefined && adapters === undefined;
    // where nothing comes between the matmul and the residual, the matmul adds it
    if (isWhole && dropout === undefined && residual !== undefined)
      return linearResidual(tape, { ...operands, bias, residual });
    const collectives = { reduceOutput: leave, gatherOutputGradient: enter };
    const sum = (): Variable =>
      adapters === undefined
        ? linear(tape, { ...operands, collectives })
        : adaptedLinear(tape, { ...operands, adapters, collectives });
    if (bias === undefined && dropout === undefined && residual === undefined) return sum();
    return tape.scope(() => biasDropoutResidual(tape, { input: sum(), bias, dropout, residual }));
  },
);
