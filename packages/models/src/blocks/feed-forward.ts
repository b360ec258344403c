import {
  expertActivation,
  gelu,
  type Parameter,
  reshape,
  squaredRelu,
  swiglu,
  type Tape,
  type Variable,
} from '@mtl/autograd';
import { type GeluKind, Tensor } from '@mtl/kernels';
import {
  type ColumnParallelLinearOptions,
  columnParallelLinear,
  columnParallelLinearGelu,
  columnParallelParameters,
  rowParallelLinear,
  rowParallelParameters,
} from '@mtl/tensor-parallel';
import { type BlockAdapter, LoraAdapters } from './lora.js';
import type { MicroBatchContext } from './micro-batch-context.js';
import type { RowCoordinate } from './row-coordinates.js';
import type { Sublayer, SublayerInput, SublayerOptions } from './sublayer.js';

/** The kind and the sizes of a feed-forward network. Kinds may add fields. */
export interface FeedForwardSpecification {
  readonly kind: string;
  /** F: the features between its layers. */
  readonly ffnHiddenSize: number;
  /** True if its layers have biases. */
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

  /** Returns the first half of `forward`: what the second layer reads. */
  activate(tape: Tape, input: Variable, context: MicroBatchContext): Variable {
    return this.#activation.apply(tape, {
      input,
      ...this.#up,
      adapters: this.#upAdapters.in(context),
      tensorParallel: context.tensorParallel,
    });
  }

  /** Returns the second half of `forward`. */
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

/** The fields of the kind `gelu`. */
export interface GeluFeedForwardSpecification extends FeedForwardSpecification {
  readonly geluKind: GeluKind;
}

/** The activation between the linear layers of a feed-forward network. */
export interface FeedForwardActivation {
  /** See `columnParallelParameters`. */
  readonly numParts?: number | undefined;
  /** [S, B, H] through the first layer and the activation: [S, B, F] of this rank. */
  apply(tape: Tape, first: ColumnParallelLinearOptions): Variable;
}

/** Returns an elementwise operation on the output of the first layer, as a whole network's activation. */
export function elementwiseActivation(
  operation: (tape: Tape, input: Variable) => Variable,
): FeedForwardActivation {
  return {
    apply: (tape, first) => tape.scope(() => operation(tape, columnParallelLinear(tape, first))),
  };
}

export function geluActivation(kind: GeluKind): FeedForwardActivation {
  const alone = elementwiseActivation((tape, input) => gelu(tape, { input, kind }));
  return {
    apply: (tape, first) => {
      const { bias, adapters, ...operands } = first;
      // one pass adds the bias, where there is one, and applies GELU; adapters come between the two
      return bias === undefined || adapters !== undefined
        ? alone.apply(tape, first)
        : columnParallelLinearGelu(tape, { ...operands, bias, kind });
    },
  };
}

/** The first layer has gates and values. */
export const swigluActivation: FeedForwardActivation = {
  numParts: 2,
  ...elementwiseActivation((tape, input) => swiglu(tape, { input })),
};

export const squaredReluActivation: FeedForwardActivation = elementwiseActivation((tape, input) =>
  squaredRelu(tape, { input }),
);

/** The fields of the kind `clamped-glu`. */
export interface ClampedGluSpecification {
  /** The function that gates go through: SiLU, or x sigmoid(1.702 x). */
  readonly gate: 'swiglu' | 'clampedQuickGeglu';
  /** Gates are at most this, values between it and its negative. Absent: any. */
  readonly clamp?: number | undefined;
  /** Added to the values. Absent: 0. */
  readonly linearOffset?: number | undefined;
}

/** Returns an activation of gates and values, which may be clamped, and values an offset (gpt-oss). */
export const clampedGluActivation = ({
  gate: activation,
  clamp,
  linearOffset,
}: ClampedGluSpecification): FeedForwardActivation => ({
  numParts: 2,
  ...elementwiseActivation((tape, input) => {
    const { shape, device } = input.tensor;
    const width = shape.at(-1)!;
    const numRows = input.tensor.size / width;
    // all rows are those of one expert
    const offsets = Tensor.from(Int32Array.of(0, numRows), { shape: [2], dtype: 'int32', device });
    const output = expertActivation(tape, {
      input: reshape(tape, { input, shape: [numRows, 1, width] }),
      offsets: tape.input(offsets),
      activation,
      clamp,
      linearOffset,
    });
    return reshape(tape, { input: output, shape: [...shape.slice(0, -1), width / 2] });
  }),
});
