import { Parameter } from '@mtl/autograd';
import type { Slice } from '@mtl/kernels';
import { sliceOfRank } from './slice-of-rank.js';
import type { TensorParallel } from './tensor-parallel.js';

export interface ColumnParallelParametersOptions {
  /** The parameters are called `name.weight` and `name.bias`. */
  readonly name: string;
  /** I: the size of the input. */
  readonly inputs: number;
  /** Sizes whose product is O; the first one is sharded. */
  readonly outputs: readonly number[];
  /**
   * How many matrices of `outputs` there are, one after the other, each of them sharded: 2 for the gates and
   * the values of a gated layer. They are the first dimension of the parameters. Default: one matrix, without
   * that dimension.
   */
  readonly numParts?: number | undefined;
  /**
   * The matrices inside the weight (see `ParameterOptions.matrices`), such as those of queries, keys and
   * values. Default: one, the whole weight.
   */
  readonly matrices?: readonly (readonly Slice[])[] | undefined;
  /** What the first one counts, in the plural: `attention heads`. */
  readonly what: string;
  /** Standard deviation of the initial weight. */
  readonly standardDeviation: number;
  /** Default true. */
  readonly bias?: boolean | undefined;
  readonly tensorParallel: TensorParallel | undefined;
}

/**
 * The parameters of `columnParallelLinear`: a weight [...outputs, I], of which this rank holds a slice of the
 * first dimension, and a bias [...outputs] with the same slice, initially zero. With `numParts` P they are
 * [P, ...outputs, I] and [P, ...outputs], of which this rank holds the same slice of every part: a slice of
 * the first dimension of [P * O, I] would be parts of other ranks.
 *
 * @throws ConfigurationError MTL_TENSOR_PARALLEL_SIZE when the first dimension cannot be sharded evenly
 */
export function columnParallelParameters(options: ColumnParallelParametersOptions): {
  readonly weight: Parameter;
  readonly bias: Parameter | undefined;
} {
  const { name, inputs, outputs, numParts, what, standardDeviation, bias = true, tensorParallel } = options;
  const own = sliceOfRank(tensorParallel, { size: outputs[0]!, what });
  const whole = (size: number): Slice => ({ start: 0, end: size });
  const parts = numParts === undefined ? [] : [numParts];
  const shape = [...parts, ...outputs];
  const slices = [...parts.map(whole), own, ...outputs.slice(1).map(whole)];
  // the outputs are sharded, behind the dimension of the parts
  const placement = { sharded: { tp: parts.length } };
  const weight = new Parameter({
    name: `${name}.weight`,
    globalShape: [...shape, inputs],
    slices: [...slices, whole(inputs)],
    matrices: options.matrices ?? [[...shape, inputs].map(whole)],
    placement,
    initialization: { kind: 'normal', standardDeviation },
  });
  if (!bias) return { weight, bias: undefined };
  return {
    weight,
    // a bias never decays, whatever its number of dimensions (Megatron's rule)
    bias: new Parameter({
      name: `${name}.bias`,
      globalShape: shape,
      slices,
      placement,
      initialization: { kind: 'zeros' },
      decays: false,
    }),
  };
}
