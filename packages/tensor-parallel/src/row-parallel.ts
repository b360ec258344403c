import {
  adaptedLinear,
  biasDropoutResidual,
  type Dropout,
  type LinearAdapter,
  type LinearAdapters,
  type LinearOptions,
  linear,
  linearResidual,
  Parameter,
  type Tape,
  type Variable,
} from '@mtl/autograd';
import { checkedOperation } from '@mtl/kernels';
import { regionCollectives } from './region-collectives.js';
import { replicatedParameter } from './replicated-parameter.js';
import { sliceOfRank, type TensorParallel } from './tensor-parallel.js';

export interface RowParallelLinearOptions extends Pick<LinearOptions, 'input' | 'weight'> {
  /** [O], replicated. The bias is added only once, after the sum over processes. */
  readonly bias?: Parameter | undefined;
  /** The dropout that is applied to the sum plus bias, before the residual is added. Default: none. */
  readonly dropout?: Dropout | undefined;
  /**
   * [S, B, O] or, with sequence parallelism, this process's shard [S / t, B, O]. Like the bias, the residual
   * is added once, after the sum over processes. Default: none.
   */
  readonly residual?: Variable | undefined;
  /** The adapters of `rowParallelAdapter`. Default: none. */
  readonly adapters?: LinearAdapters | undefined;
  readonly tensorParallel: TensorParallel | undefined;
}

/**
 * Ends a tensor-parallel region: `residual + dropout(sum + bias)`, where `sum` is `input * weight^T`, summed
 * over processes. The input is [S, B, I / t], and the weight [O, I / t] consists of this process's columns
 * (Shoeybi et al. 2019, section 3: the rows of the transposed weight). Every process gets the whole sum [S,
 * B, O]. With sequence parallelism, each process gets only its shard [S / t, B, O], and the gradient of the
 * bias is a partial sum.
 */
export const rowParallelLinear = checkedOperation(
  'rowParallelLinear',
  (tape: Tape, options: RowParallelLinearOptions): Variable => {
    const { tensorParallel, bias, dropout, residual, adapters, ...operands } = options;
    const { enter, leave } = regionCollectives(tensorParallel);
    const isWhole = leave === undefined && adapters === undefined;
    // if there is no operation between the matmul and the residual, the matmul itself adds the residual
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

export interface RowParallelParametersOptions {
  /** The prefix of the parameters' names, `name.weight` and `name.bias`. */
  readonly name: string;
  /**
   * The size of the input: `numGroups` groups (heads) with `groupSize` features each. Only whole groups are
   * sharded.
   */
  readonly inputs: { readonly numGroups: number; readonly groupSize: number };
  /** O: the size of the output. */
  readonly outputs: number;
  /** The plural noun for the groups, such as `attention heads`, for errors. */
  readonly what: string;
  /** Standard deviation of the initial weight. */
  readonly standardDeviation: number;
  /** Default true. */
  readonly bias?: boolean | undefined;
  readonly tensorParallel: TensorParallel | undefined;
}

/**
 * Makes the parameters of `rowParallelLinear`: a weight [O, numGroups * groupSize], whose columns are sharded
 * by groups, and a replicated bias [O], initially zero.
 *
 * @throws ConfigurationError MTL_TENSOR_PARALLEL_SIZE if the groups cannot be sharded evenly
 */
export function rowParallelParameters(options: RowParallelParametersOptions): {
  readonly weight: Parameter;
  readonly bias: Parameter | undefined;
} {
  const { name, inputs, outputs, what, standardDeviation, bias = true, tensorParallel } = options;
  const { numGroups, groupSize } = inputs;
  const own = sliceOfRank(tensorParallel, { size: numGroups, what });
  return {
    weight: new Parameter({
      name: `${name}.weight`,
      globalShape: [outputs, numGroups * groupSize],
      slices: [
        { start: 0, end: outputs },
        { start: own.start * groupSize, end: own.end * groupSize },
      ],
      matrices: [[outputs, numGroups * groupSize].map((size) => ({ start: 0, end: size }))],
      placement: { sharded: { tp: 1 } },
      initialization: { kind: 'normal', standardDeviation },
    }),
    bias: bias
      ? replicatedParameter({
          name: `${name}.bias`,
          globalShape: [outputs],
          initialization: { kind: 'zeros' },
          tensorParallel,
        })
      : undefined,
  };
}

export interface RowParallelAdapterOptions {
  /** The prefix of the parameters' names, `name.lora_a.weight` and `name.lora_b.weight`. */
  readonly name: string;
  /** The weight made by `rowParallelParameters`. */
  readonly weight: Parameter;
  /** r: the rank of the adapter. */
  readonly rank: number;
  readonly tensorParallel: TensorParallel | undefined;
}

/**
 * Makes an adapter of a `rowParallelLinear`: A [r, I] is sharded by columns like the weight, and B [O, r] is
 * replicated. The region's final sum over ranks includes the adapter's term. Each rank computes the gradient
 * of B from its own inputs, so this gradient is a partial sum. Initial values are the same as in
 * `columnParallelAdapter`.
 */
export function rowParallelAdapter(options: RowParallelAdapterOptions): LinearAdapter {
  const { name, weight, rank, tensorParallel } = options;
  const [outputs, inputs] = weight.globalShape as [number, number];
  return {
    down: new Parameter({
      name: `${name}.lora_a.weight`,
      globalShape: [rank, inputs],
      slices: [{ start: 0, end: rank }, weight.slices[1]!],
      placement: { sharded: { tp: 1 } },
      initialization: { kind: 'uniform', bound: 1 / Math.sqrt(inputs) },
    }),
    up: replicatedParameter({
      name: `${name}.lora_b.weight`,
      globalShape: [outputs, rank],
      initialization: { kind: 'zeros' },
      insideRegions: true,
      tensorParallel,
    }),
  };
}
