import {
  checkedOperation,
  layerNormBackward,
  layerNormForward,
  rmsNormBackward,
  rmsNormForward,
  Tensor,
} from '@mtl/kernels';
import { type Parameter, trainedParameters } from '../parameter.js';
import type { Tape } from '../tape.js';
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
 * Layer norm: normalizes the last dimension to mean 0 and variance 1, multiplies by weight and adds bias. If
 * the tape rematerializes, the output is not kept, because recomputing it from the input is cheap. Backward
 * adds the gradient of the residual path in the same pass.
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

export interface RmsNormOptions {
  /** [..., H] */
  readonly input: Variable;
  /** [H] */
  readonly weight: Parameter;
  readonly epsilon: number;
}

/**
 * RMSNorm: divides by the root mean square over the last dimension, [..., H], and multiplies by weight. If
 * the tape rematerializes, the output is not kept, because recomputing it from the input is cheap. Backward
 * adds the gradient of the residual path in the same pass.
 *
 * @throws KernelError `MTL_SHAPE` or `MTL_DTYPE` for a weight that does not fit
 */
export const rmsNorm = checkedOperation(
  'rmsNorm',
  (tape: Tape, { input, weight, epsilon }: RmsNormOptions): Variable => {
    const { dtype, device, shape, size } = input.tensor;
    const statistics = dtype === 'float64' ? 'float64' : 'float32';
    const rstd = new Variable(
      Tensor.empty({ shape: [size / input.tensor.dim(-1)], dtype: statistics, device }),
      { requiresGradient: false },
    );
    const compute = (): Tensor => {
      const output = Tensor.empty({ shape, dtype, device });
      rmsNormForward({
        output,
        rstd: rstd.tensor,
        input: input.tensor,
        weight: weight.data,
        epsilon,
      });
      return output;
    };
    const trained = trainedParameters(weight);
    const result = tape.result(compute(), {
      requiresGradient: input.requiresGradient || trained.length > 0,
      recipe: { dependencies: [input, rstd], compute },
    });
    tape.record(result, () => {
      const [savedInput, savedRstd] = [tape.save(input), tape.save(rstd)];
      return {
        name: `rmsNorm ${weight.name}`,
        inputs: [input],
        parameters: trained,
        saved: [savedInput, savedRstd],
        addsAccumulated: true,
        backward: ({ parts, outputGradient, accumulated }) => {
          const inputGradient =
            parts.input && input.requiresGradient ? Tensor.empty({ shape, dtype, device }) : undefined;
          const weightGradient = parts.weight && !weight.isFrozen ? weight.mainGradient : undefined;
          if (inputGradient !== undefined || weightGradient !== undefined) {
            rmsNormBackward({
              inputGradient,
              weightGradient,
              outputGradient: outputGradient!,
              input: savedInput.tensor,
              rstd: savedRstd.tensor,
              weight: weight.data,
              addend: inputGradient === undefined ? undefined : accumulated[0],
            });
          }
          return [inputGradient];
        },
      };
    });
    rstd.release();
    return result;
  },
);
