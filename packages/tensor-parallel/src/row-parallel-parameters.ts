import { Parameter } from '@mtl/autograd';
import { replicatedParameter } from './replicated-parameter.js';
import { sliceOfRank } from './slice-of-rank.js';
import type { TensorParallel } from './tensor-parallel.js';

export interface RowParallelParametersOptions {
  /** The parameters are called `name.weight` and `name.bias`. */
  readonly name: string;
  /** The input: groups (heads) of `groupSize` features; groups are sharded. */
  readonly inputs: { readonly numGroups: number; readonly groupSize: number };
  /** O: the size of the output. */
  readonly outputs: number;
  /** What the groups are, in the plural: `attention heads`. */
  readonly what: string;
  /** Standard deviation of the initial weight. */
  readonly standardDeviation: number;
  /** Default true. */
  readonly bias?: boolean | undefined;
  readonly tensorParallel: TensorParallel | undefined;
}

/**
 * The parameters of `rowParallelLinear`: a weight [O, numGroups * groupSize], of which this rank holds the
 * columns of some groups, and a replicated bias [O], initially zero.
 *
 * @throws ConfigurationError MTL_TENSOR_PARALLEL_SIZE when the groups cannot be sharded evenly
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
