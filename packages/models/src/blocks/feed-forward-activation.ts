import {
  expertActivation,
  gelu,
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
} from '@mtl/tensor-parallel';

/** What is between the linear layers of a feed-forward network. */
export interface FeedForwardActivation {
  /** As that of `columnParallelParameters`. */
  readonly numParts?: number | undefined;
  /** [S, B, H] through the first layer and the activation: [S, B, F] of this rank. */
  apply(tape: Tape, first: ColumnParallelLinearOptions): Variable;
}

/** An elementwise operation on the output of the first layer, as a whole network's activation. */
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
  /** What gates go through: SiLU, or x sigmoid(1.702 x). */
  readonly gate: 'swiglu' | 'clampedQuickGeglu';
  /** Gates are at most this, values between it and its negative. Absent: any. */
  readonly clamp?: number | undefined;
  /** Added to the values. Absent: 0. */
  readonly linearOffset?: number | undefined;
}

/** The first layer has gates and values, which may be clamped, and values an offset (gpt-oss). */
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
