import { Parameter } from '@mtl/autograd';
import { sliceOfRank } from './slice-of-rank.js';
import type { TensorParallel } from './tensor-parallel.js';

export interface ColumnParallelParametersOptions {
  /** The parameters are called `name.weight` and `name.bias`. */
  readonly name: string;
  /** I: the size of the input. */
  readonly inputs: number;
  /** Sizes whose product is O; the first one is sharded. */
  readonly outputs: readonly number[];
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
 * first dimension, and a bias [...outputs] with the same slice, initially zero.
 *
 * @throws ConfigurationError MTL_TENSOR_PARALLEL_SIZE when the first dimension cannot be sharded evenly
 */
export function columnParallelParameters(options: ColumnParallelParametersOptions): {
  readonly weight: Parameter;
  readonly bias: Parameter | undefined;
} {
  const { name, inputs, outputs, what, standardDeviation, bias = true, tensorParallel } = options;
  const own = sliceOfRank(tensorParallel, { size: outputs[0]!, what });
  const slices = [own, ...outputs.slice(1).map((size) => ({ start: 0, end: size }))];
  const weight = new Parameter({
    name: `${name}.weight`,
    globalShape: [...outputs, inputs],
    slices: [...slices, { start: 0, end: inputs }],
    shardedOver: ['tp', 'pp'],
    initialization: { kind: 'normal', standardDeviation },
  });
  if (!bias) return { weight, bias: undefined };
  return {
    weight,
    // a bias never decays, whatever its number of dimensions (Megatron's rule)
    bias: new Parameter({
      name: `${name}.bias`,
      globalShape: outputs,
      slices,
      shardedOver: ['tp', 'pp'],
      initialization: { kind: 'zeros' },
      decays: false,
    }),
  };
}
