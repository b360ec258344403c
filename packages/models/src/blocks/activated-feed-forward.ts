import type { Parameter, Tape, Variable } from '@mtl/autograd';
import { columnParallelParameters, rowParallelLinear, rowParallelParameters } from '@mtl/tensor-parallel';
import type { BlockAdapter } from './block-adapter.js';
import type { FeedForwardActivation } from './feed-forward-activation.js';
import { LoraAdapters } from './lora-adapters.js';
import type { MicroBatchContext } from './micro-batch-context.js';
import type { RowCoordinate } from './row-coordinates.js';
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
  readonly adapters: readonly BlockAdapter[];
  readonly reads: readonly RowCoordinate[];
  readonly #activation: FeedForwardActivation;
  readonly #up: ReturnType<typeof columnParallelParameters>;
  readonly #down: ReturnType<typeof rowParallelParameters>;
  readonly #upAdapters: LoraAdapters;
  readonly #downAdapters: LoraAdapters;

  /** @throws ConfigurationError MTL_TENSOR_PARALLEL_SIZE when features cannot be sharded evenly */
  constructor(options: SublayerOptions<FeedForwardSpecification>, activation: FeedForwardActivation) {
    const { name, hiddenSize, specification, initialization, lora, tensorParallel } = options;
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
    const part = (index: number) => [
      { start: index, end: index + 1 },
      { start: 0, end: ffnHiddenSize },
    ];
    this.#upAdapters = new LoraAdapters({
      name: `${name}.linear_fc1`,
      weight: this.#up.weight,
      parallel: 'column',
      lora,
      tensorParallel,
      boxes: { fc1: 'all', ...(activation.numParts === 2 && { gate: part(0), up: part(1) }) },
    });
    this.#downAdapters = new LoraAdapters({
      name: `${name}.linear_fc2`,
      weight: this.#down.weight,
      parallel: 'row',
      lora,
      tensorParallel,
      boxes: { fc2: 'all' },
    });
    this.adapters = [...this.#upAdapters.all, ...this.#downAdapters.all];
    this.reads = [...this.#upAdapters.reads, ...this.#downAdapters.reads];
    const first = [this.#up.weight, this.#up.bias, ...this.#upAdapters.parameters];
    const last = [this.#down.weight, ...this.#downAdapters.parameters, this.#down.bias];
    this.parameters = [...first, ...last].filter((parameter) => parameter !== undefined);
  }

  forward(
    tape: Tape,
    call: Omit<SublayerInput, 'residual'> & Partial<SublayerInput>,
    context: MicroBatchContext,
  ): Variable {
    const { input, used, residual, dropout } = call;
    const activated = this.activate(tape, input, context);
    used();
    const output = this.project(tape, { activated, residual, dropout }, context);
    activated.release();
    return output;
  }

  /** The first half of `forward`: what the second layer reads. */
  activate(tape: Tape, input: Variable, context: MicroBatchContext): Variable {
    return this.#activation.apply(tape, {
      input,
      ...this.#up,
      adapters: this.#upAdapters.in(context),
      tensorParallel: context.tensorParallel,
    });
  }

  /** The second half of `forward`. */
  project(
    tape: Tape,
    {
      activated,
      residual,
      dropout,
    }: {
      readonly activated: Variable;
      readonly residual?: Variable | undefined;
      readonly dropout?: SublayerInput['dropout'];
    },
    context: MicroBatchContext,
  ): Variable {
    return rowParallelLinear(tape, {
      input: activated,
      ...this.#down,
      adapters: this.#downAdapters.in(context),
      dropout,
      residual,
      tensorParallel: context.tensorParallel,
    });
  }
}
