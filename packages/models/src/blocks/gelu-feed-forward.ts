import { gelu, type Parameter, type Tape, type Variable } from '@mtl/autograd';
import type { GeluKind } from '@mtl/kernels';
import {
  columnParallelLinear,
  columnParallelLinearGelu,
  columnParallelParameters,
  rowParallelLinear,
  rowParallelParameters,
  type TensorParallel,
} from '@mtl/tensor-parallel';
import type { MicroBatchContext } from './micro-batch-context.js';
import type { Sublayer, SublayerInput, SublayerOptions } from './sublayer.js';

/** Which feed-forward network, with what. Kinds may add fields. */
export interface FeedForwardSpecification {
  readonly kind: string;
  /** F: the features between its layers. */
  readonly ffnHiddenSize: number;
  /** Whether its layers have biases. */
  readonly bias: boolean;
}

/** The fields of the kind `gelu`. */
export interface GeluFeedForwardSpecification extends FeedForwardSpecification {
  readonly geluKind: GeluKind;
}

/** Two linear layers with GELU between them; the first is sharded by columns, the second by rows. */
export class GeluFeedForward implements Sublayer {
  readonly parameters: readonly Parameter[];
  readonly outputBias: Parameter | undefined;
  readonly #kind: GeluKind;
  readonly #up: ReturnType<typeof columnParallelParameters>;
  readonly #down: ReturnType<typeof rowParallelParameters>;

  /** @throws ConfigurationError MTL_TENSOR_PARALLEL_SIZE when features cannot be sharded evenly */
  constructor(options: SublayerOptions<GeluFeedForwardSpecification>) {
    const { name, hiddenSize, specification, initialization, tensorParallel } = options;
    const { ffnHiddenSize, bias } = specification;
    const what = 'feed-forward features';
    this.#kind = specification.geluKind;
    this.#up = columnParallelParameters({
      name: `${name}.linear_fc1`,
      inputs: hiddenSize,
      outputs: [ffnHiddenSize],
      what,
      standardDeviation: initialization.standardDeviation,
      bias,
      tensorParallel,
    });
    this.#down = rowParallelParameters({
      name: `${name}.linear_fc2`,
      inputs: { numGroups: ffnHiddenSize, groupSize: 1 },
      outputs: hiddenSize,
      what,
      standardDeviation: initialization.residualStandardDeviation,
      bias,
      tensorParallel,
    });
    this.outputBias = this.#down.bias;
    this.parameters = [this.#up, this.#down]
      .flatMap(({ weight, bias: own }) => [weight, own])
      .filter((parameter) => parameter !== undefined);
  }

  forward(tape: Tape, { input, used }: SublayerInput, { tensorParallel }: MicroBatchContext): Variable {
    const activated = this.#activated(tape, input, tensorParallel);
    used();
    const { weight } = this.#down;
    const output = rowParallelLinear(tape, { input: activated, weight, tensorParallel });
    activated.release();
    return output;
  }

  /** GELU of the first layer, [S, B, F] of this rank. */
  #activated(tape: Tape, input: Variable, tensorParallel: TensorParallel | undefined): Variable {
    const { weight, bias } = this.#up;
    const kind = this.#kind;
    // one pass adds the bias, where there is one, and applies GELU
    if (bias !== undefined) {
      return columnParallelLinearGelu(tape, { input, weight, bias, kind, tensorParallel });
    }
    return tape.scope(() =>
      gelu(tape, { input: columnParallelLinear(tape, { input, weight, tensorParallel }), kind }),
    );
  }
}
