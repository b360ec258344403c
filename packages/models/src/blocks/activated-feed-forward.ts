import type { Parameter, Tape, Variable } from '@mtl/autograd';
import { columnParallelParameters, rowParallelLinear, rowParallelParameters } from '@mtl/tensor-parallel';
import type { FeedForwardActivation } from './feed-forward-activation.js';
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

/** Two linear layers with an activation between them; the first is sharded by columns, the second by rows. */
export class ActivatedFeedForward implements Sublayer {
  readonly parameters: readonly Parameter[];
  readonly outputBias: Parameter | undefined;
  readonly #activation: FeedForwardActivation;
  readonly #up: ReturnType<typeof columnParallelParameters>;
  readonly #down: ReturnType<typeof rowParallelParameters>;

  /** @throws ConfigurationError MTL_TENSOR_PARALLEL_SIZE when features cannot be sharded evenly */
  constructor(options: SublayerOptions<FeedForwardSpecification>, activation: FeedForwardActivation) {
    const { name, hiddenSize, specification, initialization, tensorParallel } = options;
    const { ffnHiddenSize, bias } = specification;
    const what = 'feed-forward features';
    this.#activation = activation;
    this.#up = columnParallelParameters({
      name: `${name}.linear_fc1`,
      inputs: hiddenSize,
      outputs: [ffnHiddenSize],
      numParts: activation.numParts,
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
    const activated = this.#activation.apply(tape, { input, ...this.#up, tensorParallel });
    used();
    const { weight } = this.#down;
    const output = rowParallelLinear(tape, { input: activated, weight, tensorParallel });
    activated.release();
    return output;
  }
}
