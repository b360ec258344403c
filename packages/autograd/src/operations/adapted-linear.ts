import { UsageError } from '@mtl/errors';
import {
  add,
  biasDropoutResidualForward,
  cast,
  checkedOperation,
  matmul,
  scale,
  Tensor,
  tidy,
} from '@mtl/kernels';
import type { Slice } from '@mtl/layout';
import type { PendingTensor } from '../collective.js';
import { type Parameter, trainedParameters } from '../parameter.js';
import type { Tape } from '../tape.js';
import { type SavedTensor, Variable } from '../variable.js';
import { type Dropout, type MaskCoordinates, makeMask } from './bias-dropout-residual.js';
import {
  addWeightGradient,
  communicated,
  computeInputGradient,
  type LinearOptions,
  multiplyByWeight,
} from './linear.js';

/**
 * A low-rank adapter (LoRA, Hu et al. 2021) for all outputs of a linear layer, or for a box of its outputs: a
 * slice of each output dimension.
 */
export interface LinearAdapter {
  /** A, [r, I] */
  readonly down: Parameter;
  /** The matrix B. Its last dimension is r; the others are those of the layer outputs that it changes. */
  readonly up: Parameter;
  /**
   * The layer outputs that the adapter changes, as a slice of each dimension of the layer's weight. The last
   * dimension contains the inputs and has no slice. Default: all outputs.
   */
  readonly outputs?: readonly Slice[] | undefined;
}

/** The adapters of a linear layer. */
export interface LinearAdapters {
  /** The adapters. The list is not empty. */
  readonly adapters: readonly LinearAdapter[];
  /** The factor by which the adapters' outputs are multiplied: alpha / r. */
  readonly scale: number;
  /** The dropout of the adapters' input. All adapters share one mask. Default: none. */
  readonly dropout?: Dropout | undefined;
}

export interface AdaptedLinearOptions extends LinearOptions {
  readonly adapters: LinearAdapters;
}

/**
 * Computes `linear` with adapters: `output = input * weight^T + bias + scale * dropout(input) * A^T * B^T`,
 * where each adapter contributes to its box of the outputs. The adapters of a layer share their matmuls: one
 * matrix [R, I] contains every A, where R is the sum of the ranks, and one matrix [O, R] contains every B as
 * a block.
 *
 * The operation uses the layer's collectives. If the weight is sharded, each process adds the terms of its
 * slices of the adapters. No further communication is needed, and the gradient of a replicated factor (A or
 * B) is a partial sum.
 *
 * Only the adapters are trained. Weight and bias must be frozen.
 *
 * @throws UsageError MTL_FROZEN if weight or bias is not frozen
 */
export const adaptedLinear = checkedOperation(
  'adaptedLinear',
  (tape: Tape, options: AdaptedLinearOptions): Variable => {
    const { input, weight, bias, adapters, collectives = {} } = options;
    const { dropout } = adapters;
    for (const one of trainedParameters(weight, bias)) throw notFrozen(one);
    const layout = new AdapterLayout(weight, adapters);
    const { output, low } = forward(options, layout);
    const parameters = trainedParameters(...adapters.adapters.flatMap(({ down, up }) => [down, up]));
    const result = tape.result(output, {
      requiresGradient: input.requiresGradient || parameters.length > 0,
    });
    tape.record(result, () => {
      const savedInput = tape.save(input);
      const savedLow = tape.save(low);
      const coordinates = dropout && {
        samples: tape.save(dropout.samples),
        positions: dropout.positions && tape.save(dropout.positions),
      };
      const backward = new AdapterBackward({ layout, adapters, coordinates });
      return {
        name: `adaptedLinear ${weight.name}`,
        inputs: [input],
        parameters,
        saved: [savedInput, savedLow, coordinates?.samples, coordinates?.positions].filter(
          (saved) => saved !== undefined,
        ),
        backward: ({ parts, outputGradient }) => {
          const gathered = collectives.gatherOutputGradient?.(outputGradient!).wait();
          const gradient = gathered ?? outputGradient!;
          const wholeInput = parts.weight ? collectives.gatherInput?.(savedInput.tensor) : undefined;
          const lowGradient = layout.lowGradient(gradient);
          let inputGradient: PendingTensor | undefined;
          if (parts.input && input.requiresGradient) {
            const own = computeInputGradient(weight, gradient);
            backward.addInputGradient(own, lowGradient);
            inputGradient = communicated(collectives.reduceInputGradient, own);
          }
          if (parts.weight) {
            const whole = wholeInput?.wait();
            backward.addDownGradients(lowGradient, whole ?? savedInput.tensor);
            whole?.dispose();
            layout.addUpGradients(gradient, savedLow.tensor);
          }
          lowGradient.dispose();
          gathered?.dispose();
          return [inputGradient?.wait()];
        },
      };
    });
    low.release();
    return result;
  },
);

const notFrozen = ({ name }: Parameter): UsageError =>
  new UsageError('MTL_FROZEN', `parameter ${name} is trained, and its layer has adapters`, {
    expected: 'a frozen weight and bias: adapters are trained in their place',
    remedy: 'freeze them before the optimizer is built',
  });

/** Computes the operation's output, and `low`: the input projected by A, [..., R]. */
function forward(
  { input, weight, bias, adapters, collectives = {} }: AdaptedLinearOptions,
  layout: AdapterLayout,
): { readonly output: Tensor; readonly low: Variable } {
  const { dtype, device } = input.tensor;
  const whole = collectives.gatherInput?.(input.tensor).wait();
  const left = whole ?? input.tensor;
  const rows = left.shape.slice(0, -1);
  const output = Tensor.empty({ shape: [...rows, layout.numOutputs], dtype, device });
  multiplyByWeight({ output, left, weight, bias });
  const low = Tensor.empty({ shape: [...rows, layout.rank], dtype, device });
  const dropped = droppedInput(left, adapters.dropout, adapters.dropout);
  layout.withDown((right) => matmul({ output: low, left: dropped ?? left, right, transposeRight: true }));
  dropped?.dispose();
  layout.withUp((right) => matmul({ output, left: low, right, transposeRight: true, accumulate: true }));
  whole?.dispose();
  return {
    output: communicated(collectives.reduceOutput, output).wait(),
    low: new Variable(low, { requiresGradient: false }),
  };
}

/** Returns a new tensor with dropout applied to the input, or undefined if `dropout` is undefined. */
function droppedInput(
  input: Tensor,
  dropout: Dropout | undefined,
  coordinates: MaskCoordinates | undefined,
): Tensor | undefined {
  if (dropout === undefined) return undefined;
  const output = Tensor.empty(input);
  biasDropoutResidualForward({ output, input, dropout: makeMask(dropout, coordinates!) });
  return output;
}

/** Where each adapter's factors are in the joined matrices A [R, I] and B [O, R]. */
class AdapterLayout {
  /** O, the number of outputs on this process. */
  readonly numOutputs: number;
  /** R */
  readonly rank: number;
  readonly #weight: Parameter;
  readonly #options: LinearAdapters;

  constructor(weight: Parameter, options: LinearAdapters) {
    this.#weight = weight;
    this.#options = options;
    this.numOutputs = weight.size / weight.shape.at(-1)!;
    this.rank = options.adapters.reduce((sum, { down }) => sum + down.shape[0]!, 0);
  }

  /** Runs `body` with the joined A, [R, I]. */
  withDown(body: (joined: Tensor) => void): void {
    const { adapters } = this.#options;
    if (adapters.length === 1) {
      body(adapters[0]!.down.data);
      return;
    }
    tidy(() => {
      const { dtype, device } = adapters[0]!.down.data;
      const joined = Tensor.empty({ shape: [this.rank, adapters[0]!.down.data.dim(1)], dtype, device });
      this.forAdapters(({ down }, start) => {
        cast({ output: joined.rows(start, start + down.shape[0]!), input: down.data });
      });
      body(joined);
    });
  }

  /**
   * Runs `body` with the joined B multiplied by the scale, [O, R]. Elements outside of the boxes are zero.
   */
  withUp(body: (joined: Tensor) => void): void {
    const { dtype, device } = this.#options.adapters[0]!.up.data;
    tidy(() => {
      const joined = Tensor.zeros({ shape: [this.numOutputs, this.rank], dtype, device });
      this.forAdapters((adapter, start) => {
        const { data } = adapter.up;
        scale({ output: this.#viewBox(joined, adapter, start), input: data, factor: this.#options.scale });
      });
      body(joined);
    });
  }

  /** Returns the gradient of the input projected by A, a new tensor [..., R]. */
  lowGradient(outputGradient: Tensor): Tensor {
    const { dtype, device, shape } = outputGradient;
    const output = Tensor.empty({ shape: [...shape.slice(0, -1), this.rank], dtype, device });
    this.withUp((right) => matmul({ output, left: outputGradient, right }));
    return output;
  }

  /** Adds the gradient of every adapter's B to its main gradient. */
  addUpGradients(outputGradient: Tensor, low: Tensor): void {
    const { dtype, device } = this.#options.adapters[0]!.up.mainGradient;
    tidy(() => {
      const joined = Tensor.empty({ shape: [this.numOutputs, this.rank], dtype, device });
      matmul({ output: joined, left: outputGradient, right: low, transposeLeft: true });
      this.forAdapters((adapter, start) => {
        const input = this.#viewBox(joined, adapter, start);
        const { mainGradient: output } = adapter.up;
        scale({ output, input, factor: this.#options.scale, accumulate: true });
      });
    });
  }

  /**
   * Calls `body` with each adapter and the index of its first row in A, which equals its first column in B.
   */
  forAdapters(body: (adapter: LinearAdapter, start: number) => void): void {
    let start = 0;
    for (const adapter of this.#options.adapters) {
      body(adapter, start);
      start += adapter.down.shape[0]!;
    }
  }

  /** Returns a view of an adapter's block in a matrix [O, R], in the shape of the adapter's B. */
  #viewBox(joined: Tensor, { up, outputs }: LinearAdapter, start: number): Tensor {
    const sizes = this.#weight.shape.slice(0, -1);
    const strides = sizes.map((_, dim) =>
      sizes.slice(dim + 1).reduce((product, size) => product * size, this.rank),
    );
    const offset = (outputs ?? []).reduce((sum, slice, dim) => sum + slice.start * strides[dim]!, start);
    return joined.strided({ offset, shape: up.shape, strides: [...strides, 1] });
  }
}

/** The backward of dropout and A. */
class AdapterBackward {
  readonly #layout: AdapterLayout;
  readonly #options: LinearAdapters;
  readonly #coordinates: MaskOfSite | undefined;

  constructor(options: {
    readonly layout: AdapterLayout;
    readonly adapters: LinearAdapters;
    readonly coordinates: MaskOfSite | undefined;
  }) {
    this.#layout = options.layout;
    this.#options = options.adapters;
    this.#coordinates = options.coordinates;
  }

  /** Adds the gradient that flows through the adapters to the gradient of the layer's input, [..., I]. */
  addInputGradient(inputGradient: Tensor, lowGradient: Tensor): void {
    const { dropout } = this.#options;
    this.#layout.withDown((right) => {
      if (dropout === undefined) {
        matmul({ output: inputGradient, left: lowGradient, right, accumulate: true });
        return;
      }
      using own = Tensor.empty(inputGradient);
      matmul({ output: own, left: lowGradient, right });
      const mask = makeMask(dropout, this.#coordinates!);
      biasDropoutResidualForward({
        output: inputGradient,
        input: own,
        residual: inputGradient,
        dropout: mask,
      });
    });
  }

  /** Adds the gradient of every adapter's A to its main gradient. */
  addDownGradients(lowGradient: Tensor, input: Tensor): void {
    const { adapters, dropout } = this.#options;
    const dropped = droppedInput(input, dropout, this.#coordinates);
    const right = dropped ?? input;
    if (adapters.length === 1) addWeightGradient(adapters[0]!.down, lowGradient, right);
    else this.#addJoinedDownGradients(lowGradient, right);
    dropped?.dispose();
  }

  #addJoinedDownGradients(lowGradient: Tensor, input: Tensor): void {
    const { adapters } = this.#options;
    const { dtype, device } = adapters[0]!.down.mainGradient;
    tidy(() => {
      const joined = Tensor.empty({ shape: [this.#layout.rank, input.dim(-1)], dtype, device });
      matmul({ output: joined, left: lowGradient, right: input, transposeLeft: true });
      this.#layout.forAdapters(({ down: { mainGradient, shape } }, start) => {
        const right = joined.rows(start, start + shape[0]!);
        add({ output: mainGradient, left: mainGradient, right });
      });
    });
  }
}

/** The coordinates from which a dropout mask is computed, saved for backward. */
interface MaskOfSite {
  readonly samples: SavedTensor;
  readonly positions: SavedTensor | undefined;
}
