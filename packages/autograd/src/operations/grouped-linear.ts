import { UsageError } from '@mtl/errors';
import { checkedOperation, groupedMatmul, groupedWeightGradient, type Tensor } from '@mtl/kernels';
import { plainPrecision } from '../matmul-precision.js';
import type { Parameter } from '../parameter.js';
import type { Tape } from '../tape.js';
import { trainedParameters } from '../trained-parameters.js';
import type { Variable } from '../variable.js';

export interface GroupedLinearOptions {
  /** `[R, 1, K]` (or more dimensions that fold to R rows): the rows of one group after those of another */
  readonly input: Variable;
  /** `[G, ..., K]`: a matrix of N outputs for each group; the dimensions between fold to N. */
  readonly weight: Parameter;
  /** `[G + 1]` int32: the rows of group g are `offsets[g]` to `offsets[g + 1]`, exclusive. */
  readonly offsets: Variable;
}

/** Runs `body` with a view of [G, ..., K] as [G, N, K]. */
export function withMatrices<Result>(tensor: Tensor, body: (matrices: Tensor) => Result): Result {
  const [groups, inputs] = [tensor.dim(0), tensor.dim(-1)];
  const view = tensor.reshape([groups, tensor.size / (groups * inputs), inputs]);
  try {
    return body(view);
  } finally {
    view.dispose();
  }
}

/** @throws UsageError MTL_UNSUPPORTED for a weight whose matmuls compute in another precision */
export function expectPlainPrecision({ name, precision }: Parameter): void {
  if (precision === plainPrecision) return;
  throw new UsageError(
    'MTL_UNSUPPORTED',
    `groupedLinear: ${name} computes its matmuls in another precision`,
    {
      expected: 'a weight in the dtype of the activations: grouped matmuls have no other precision',
    },
  );
}

/**
 * output[r] = input[r] weight[g]^T for the rows r of group g, [R, 1, N]; rows behind the last group become
 * zeros. The weight gradient is added to the main gradient by the matmul itself, in float32 whatever the
 * compute dtype; that of a group without rows stays as it is.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit, `MTL_INDEX` for offsets that
 *   are none
 * @throws UsageError `MTL_UNSUPPORTED` for a weight whose matmuls compute in another precision
 */
export const groupedLinear = checkedOperation(
  'groupedLinear',
  (tape: Tape, { input, weight, offsets }: GroupedLinearOptions): Variable => {
    expectPlainPrecision(weight);
    const output = withMatrices(weight.data, (weights) =>
      groupedMatmul({
        input: input.tensor,
        weights,
        offsets: offsets.tensor,
        transposeWeights: true,
      }),
    );
    const trained = trainedParameters(weight);
    const result = tape.result(output, { requiresGradient: input.requiresGradient || trained.length > 0 });
    tape.record(result, () => {
      const savedInput = weight.isFrozen ? undefined : tape.save(input);
      const savedOffsets = tape.save(offsets);
      return {
        name: `groupedLinear ${weight.name}`,
        inputs: [input],
        parameters: trained,
        saved: [savedInput, savedOffsets].filter((saved) => saved !== undefined),
        backward: ({ parts, outputGradient }) => {
          const operands = { outputGradient: outputGradient!, offsets: savedOffsets.tensor };
          let inputGradient: Tensor | undefined;
          if (parts.input && input.requiresGradient) {
            inputGradient = withMatrices(weight.data, (weights) =>
              groupedMatmul({ input: outputGradient!, weights, offsets: savedOffsets.tensor }),
            );
          }
          if (parts.weight && savedInput !== undefined) {
            const { gradient, accumulate } = weight.takeMainGradient();
            withMatrices(gradient, (weightGradient) =>
              groupedWeightGradient({
                weightGradient,
                ...operands,
                input: savedInput.tensor,
                accumulate,
              }),
            );
          }
          return [inputGradient];
        },
      };
    });
    return result;
  },
);
