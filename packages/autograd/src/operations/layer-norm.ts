import { checkedOperation, layerNormBackward, layerNormForward, Tensor } from '@mtl/kernels';
import type { Parameter } from '../parameter.js';
import type { Tape } from '../tape.js';
import { trainedParameters } from '../trained-parameters.js';
import { Variable } from '../variable.js';

export interface LayerNormOptions {
  /** [..., H] */
  readonly input: Variable;
  /** [H] */
  readonly weight: Parameter;
  /** [H] */
  readonly bias: Parameter;
  readonly epsilon: number;
}

/**
 * Layer norm over the last dimension. Its output is cheap to compute again from the input, so it is not kept
 * for backward where the tape rematerializes; its backward adds the gradient of the residual path in the same
 * pass.
 */
export const layerNorm = checkedOperation(
  'layerNorm',
  (tape: Tape, { input, weight, bias, epsilon }: LayerNormOptions): Variable => {
    const { dtype, device, shape, size } = input.tensor;
    const rows = size / input.tensor.dim(-1);
    const statistics = dtype === 'float64' ? 'float64' : 'float32';
    const statistic = (): Variable =>
      new Variable(Tensor.empty({ shape: [rows], dtype: statistics, device }), { requiresGradient: false });
    const mean = statistic();
    const rstd = statistic();
    const compute = (): Tensor => {
      const output = Tensor.empty({ shape, dtype, device });
      layerNormForward({
        output,
        mean: mean.tensor,
        rstd: rstd.tensor,
        input: input.tensor,
        weight: weight.data,
        bias: bias.data,
        epsilon,
      });
      return output;
    };
    const trained = trainedParameters(weight, bias);
    const result = tape.result(compute(), {
      requiresGradient: input.requiresGradient || trained.length > 0,
      recipe: { dependencies: [input, mean, rstd], compute },
    });
    tape.record(result, () => {
      const [savedInput, savedMean, savedRstd] = [tape.save(input), tape.save(mean), tape.save(rstd)];
      return {
        name: `layerNorm ${weight.name}`,
        inputs: [input],
        parameters: trained,
        saved: [savedInput, savedMean, savedRstd],
        addsAccumulated: true,
        backward: ({ parts, outputGradient, accumulated }) => {
          const inputGradient =
            parts.input && input.requiresGradient ? Tensor.empty({ shape, dtype, device }) : undefined;
          const weightGradient = parts.weight && !weight.isFrozen ? weight.mainGradient : undefined;
          const biasGradient = parts.weight && !bias.isFrozen ? bias.mainGradient : undefined;
          if ([inputGradient, weightGradient, biasGradient].some((wanted) => wanted !== undefined)) {
            layerNormBackward({
              inputGradient,
              weightGradient,
              biasGradient,
              outputGradient: outputGradient!,
              input: savedInput.tensor,
              mean: savedMean.tensor,
              rstd: savedRstd.tensor,
              weight: weight.data,
              addend: inputGradient === undefined ? undefined : accumulated[0],
            });
          }
          return [inputGradient];
        },
      };
    });
    mean.release();
    rstd.release();
    return result;
  },
);
