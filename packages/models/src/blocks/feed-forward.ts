import {
  expertActivation,
  gelu,
  linearGelu,
  type Parameter,
  reshape,
  squaredRelu,
  swiglu,
  type Tape,
  type Variable,
} from '@mtl/autograd';
import { type GeluKind, Tensor } from '@mtl/kernels';
import type { ColumnLayer, LinearActivation, LinearCall, RowLayer } from './linear-layers.js';
import type { MicroBatchContext } from './micro-batch-context.js';
import type { RowCoordinate } from './row-coordinates.js';
import type { Sublayer, SublayerInput, SublayerOptions } from './sublayer.js';

/** A feed-forward network's kind and sizes. Registered kinds may add fields. */
export interface FeedForwardSpecification {
  readonly kind: string;
  /** F: the number of features between the two layers. */
  readonly ffnHiddenSize: number;
  /** True if both layers have biases. */
  readonly bias: boolean;
}

/**
 * A feed-forward network of two linear layers with an activation function between them. The first layer is
 * column-parallel, the second row-parallel.
 */
export class ActivatedFeedForward implements Sublayer {
  readonly parameters: readonly Parameter[];
  readonly reads: readonly RowCoordinate[];
  readonly #activation: FeedForwardActivation;
  readonly #up: ColumnLayer;
  readonly #down: RowLayer;

  /** @throws ConfigurationError MTL_TENSOR_PARALLEL_SIZE when features cannot be sharded evenly */
  constructor(options: SublayerOptions<FeedForwardSpecification>, activation: FeedForwardActivation) {
    const { name, hiddenSize, specification, initialization, factory } = options;
    const { ffnHiddenSize, bias } = specification;
    const what = 'feed-forward features';
    this.#activation = activation;
    const part = (index: number) => [
      { start: index, end: index + 1 },
      { start: 0, end: ffnHiddenSize },
    ];
    this.#up = factory.column({
      name: `${name}.linear_fc1`,
      inputs: hiddenSize,
      outputs: [ffnHiddenSize],
      numParts: activation.numParts,
      what,
      standardDeviation: initialization.standardDeviation,
      bias,
      adapters: { fc1: 'all', ...(activation.numParts === 2 && { gate: part(0), up: part(1) }) },
    });
    this.#down = factory.row({
      name: `${name}.linear_fc2`,
      inputs: { numGroups: ffnHiddenSize, groupSize: 1 },
      outputs: hiddenSize,
      what,
      standardDeviation: initialization.residualStandardDeviation,
      bias,
      adapters: { fc2: 'all' },
    });
    this.reads = [...this.#up.reads, ...this.#down.reads];
    this.parameters = [...this.#up.parameters, ...this.#down.parameters];
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

  /**
   * Computes the first half of `forward`: the first layer and the activation. Returns the input of the second
   * layer.
   */
  activate(tape: Tape, input: Variable, context: MicroBatchContext): Variable {
    return this.#activation.apply(tape, { input, layer: this.#up, call: context });
  }

  /** Computes the second half of `forward`: the second layer, dropout and residual. */
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
    return this.#down.forward(tape, { input: activated, dropout, residual }, context);
  }
}

/** The fields of the kind `gelu`. */
export interface GeluFeedForwardSpecification extends FeedForwardSpecification {
  readonly geluKind: GeluKind;
}

/** The activation function between the linear layers of a feed-forward network. */
export interface FeedForwardActivation {
  /**
   * How many parts the first layer's output has, such as 2 for gates and values (see
   * `columnParallelParameters`). Default: 1.
   */
  readonly numParts?: number | undefined;
  /**
   * Applies the first layer and the activation function to [S, B, H]. Returns this rank's features, [S, B, F
   * / t], where t is the tensor-parallel size.
   */
  apply(tape: Tape, first: FirstLayer): Variable;
}

/** The first layer of a feed-forward network, together with its input in a call. */
export interface FirstLayer {
  /** [S, B, H], or this process's shard of such a tensor. */
  readonly input: Variable;
  readonly layer: ColumnLayer;
  readonly call: LinearCall;
}

/** Returns an activation that applies an elementwise operation to the first layer's output. */
export function elementwiseActivation(
  operation: (tape: Tape, input: Variable) => Variable,
): FeedForwardActivation {
  return {
    apply: (tape, { input, layer, call }) =>
      tape.scope(() => operation(tape, layer.forward(tape, input, call))),
  };
}

export function geluActivation(kind: GeluKind): FeedForwardActivation {
  const activation: LinearActivation = {
    fused: (tape, operands) => linearGelu(tape, { ...operands, kind }),
    alone: (tape, input) => gelu(tape, { input, kind }),
  };
  return { apply: (tape, { input, layer, call }) => layer.forwardThrough(activation, tape, input, call) };
}

/** SwiGLU: the first layer computes gates and values, and the output is SiLU(gate) times value. */
export const swigluActivation: FeedForwardActivation = {
  numParts: 2,
  ...elementwiseActivation((tape, input) => swiglu(tape, { input })),
};

export const squaredReluActivation: FeedForwardActivation = elementwiseActivation((tape, input) =>
  squaredRelu(tape, { input }),
);

/** The fields of the kind `clamped-glu`. */
export interface ClampedGluSpecification {
  /**
   * The function applied to the gates: SiLU (`swiglu`), or `x * sigmoid(1.702 * x)` (`clampedQuickGeglu`).
   */
  readonly gate: 'swiglu' | 'clampedQuickGeglu';
  /** The upper limit of the gates, and of the magnitude of the values. If absent, there is no limit. */
  readonly clamp?: number | undefined;
  /** A constant that is added to the values. If absent, it is 0. */
  readonly linearOffset?: number | undefined;
}

/**
 * Returns a gated activation, as in gpt-oss, that can clamp gates and values and add an offset to the values.
 */
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
    // uses the kernel for experts with a single expert, to which all rows belong
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
