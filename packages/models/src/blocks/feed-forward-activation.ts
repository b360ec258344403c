import { gelu, squaredRelu, swiglu, type Tape, type Variable } from '@mtl/autograd';
import type { GeluKind } from '@mtl/kernels';
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
