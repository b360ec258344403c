import {
  checkedOperation,
  groupedBiasBackward,
  groupedBiasForward,
  groupedSumRows,
  Tensor,
} from '@mtl/kernels';
import type { Parameter } from '../parameter.js';
import type { Tape } from '../tape.js';
import { trainedParameters } from '../trained-parameters.js';
import type { Variable } from '../variable.js';
import { withRows } from './expert-activation.js';

export interface GroupedBiasOptions {
  /** `[R, 1, N]` (or more dimensions that fold to R rows) */
  readonly input: Variable;
  /** [G, N] */
  readonly bias: Parameter;
  /** R elements, float32: the factor of each row's bias. Default: 1. */
  readonly probabilities?: Variable | undefined;
  /** `[G + 1]` int32: the rows of group g are `offsets[g]` to `offsets[g + 1]`, exclusive. */
  readonly offsets: Variable;
}

/**
 * input[r] + probabilities[r] * bias[g] for the rows r of group g, of the input's shape; rows behind the last
 * group become zeros.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for tensors that do not fit, `MTL_INDEX` for offsets that
 *   are none
 */
export const groupedBias = checkedOperation(
  'groupedBias',
  (tape: Tape, { input, bias, probabilities, offsets }: GroupedBiasOptions): Variable => {
    const output = withRows(probabilities?.tensor, (factors) =>
      groupedBiasForward({
        input: input.tensor,
        bias: bias.data,
        probabilities: factors,
        offsets: offsets.tensor,
      }),
    );
    const trained = trainedParameters(bias);
    const isProbabilityTrained = probabilities?.requiresGradient === true;
    const result = tape.result(output, {
      requiresGradient: input.requiresGradient || isProbabilityTrained || trained.length > 0,
    });
    const { shape } = output;
    tape.record(result, () => {
      const savedOffsets = tape.save(offsets);
      const savedFactors = trained.length > 0 && probabilities ? tape.save(probabilities) : undefined;
      return {
        name: `groupedBias ${bias.name}`,
        inputs: probabilities === undefined ? [input] : [input, probabilities],
        parameters: trained,
        saved: [savedOffsets, savedFactors].filter((saved) => saved !== undefined),
        backward: ({ parts, outputGradient }) => {
          const operands = { outputGradient: outputGradient!, offsets: savedOffsets.tensor };
          if (parts.weight && trained.length > 0) {
            withRows(savedFactors?.tensor, (weights) =>
              groupedSumRows({
                output: bias.mainGradient,
                input: outputGradient!,
                weights,
                offsets: savedOffsets.tensor,
                accumulate: true,
              }),
            );
          }
          let ofFactors: Tensor | undefined;
          if (parts.input && isProbabilityTrained) {
            ofFactors = Tensor.empty(probabilities.tensor);
            withRows(ofFactors, (rows) =>
              groupedBiasBackward({ probabilitiesGradient: rows!, bias: bias.data, ...operands }),
            );
          }
          const inputGradient =
            parts.input && input.requiresGradient ? outputGradient!.view({ shape }) : undefined;
          return [inputGradient, ofFactors];
        },
      };
    });
    return result;
  },
);
