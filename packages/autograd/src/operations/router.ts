import {
  cast,
  checkedOperation,
  type DType,
  matmul,
  type RouterScoreOptions,
  routerBackward,
  routerForward,
  Tensor,
} from '@mtl/kernels';
import { type Parameter, trainedParameters } from '../parameter.js';
import type { Tape } from '../tape.js';
import type { Variable } from '../variable.js';
import { addBiasGradient } from './linear.js';

export interface RouterLinearOptions {
  /** [..., H] */
  readonly input: Variable;
  /** [E, H] */
  readonly weight: Parameter;
  /** [E] */
  readonly bias?: Parameter | undefined;
}

const wideDtype = (dtype: DType): DType => (dtype === 'float64' ? 'float64' : 'float32');

/**
 * Runs `body` with the tensor in float32: the tensor itself if its dtype is wide enough, otherwise a
 * temporary copy.
 */
function inFloat32<Result>(tensor: Tensor, body: (wide: Tensor) => Result): Result {
  const dtype = wideDtype(tensor.dtype);
  if (dtype === tensor.dtype) return body(tensor);
  using wide = cast({ input: tensor, dtype });
  return body(wide);
}

/**
 * Computes the logits of a router, `input * weight^T + bias`: [T, E], where T flattens the leading
 * dimensions. Logits and gradients are always computed in float32, so that the expert assignment does not
 * depend on the rounding of 16-bit logits. The input's gradient is rounded once.
 */
export const routerLinear = checkedOperation(
  'routerLinear',
  (tape: Tape, { input, weight, bias }: RouterLinearOptions): Variable => {
    const { dtype, device, shape } = input.tensor;
    const [numExperts, hiddenSize] = weight.shape as [number, number];
    const numRows = input.tensor.size / hiddenSize;
    const logits = Tensor.empty({ shape: [numRows, numExperts], dtype: wideDtype(dtype), device });
    using rows = input.tensor.reshape([numRows, hiddenSize]);
    matmul({ output: logits, left: rows, right: weight.data, transposeRight: true, bias: bias?.data });
    const trained = trainedParameters(weight, bias);
    const requiresGradient = input.requiresGradient || trained.length > 0;
    const result = tape.result(logits, { requiresGradient });
    tape.record(result, () => {
      const saved = tape.save(input);
      return {
        name: `routerLinear ${weight.name}`,
        inputs: [input],
        parameters: trained,
        saved: [saved],
        backward: ({ parts, outputGradient }) => {
          if (parts.weight && !weight.isFrozen) {
            const { gradient, accumulate } = weight.takeMainGradient();
            using left = saved.tensor.reshape([numRows, hiddenSize]);
            inFloat32(left, (right) =>
              matmul({ output: gradient, left: outputGradient!, right, transposeLeft: true, accumulate }),
            );
          }
          if (parts.weight && bias !== undefined && !bias.isFrozen) addBiasGradient(bias, outputGradient!);
          if (!parts.input || !input.requiresGradient) return [];
          const wide = Tensor.empty({ shape, dtype: wideDtype(dtype), device });
          using output = wide.reshape([numRows, hiddenSize]);
          inFloat32(weight.data, (right) => matmul({ output, left: outputGradient!, right }));
          if (wide.dtype === dtype) return [wide];
          const gradient = cast({ input: wide, dtype });
          wide.dispose();
          return [gradient];
        },
      };
    });
    return result;
  },
);

export interface RouteOptions extends RouterScoreOptions {
  /** [..., E] float32 or float64, with T rows */
  readonly logits: Variable;
  /**
   * float32 [E]: added to the scores when experts are selected, but not to probabilities. It has no gradient.
   */
  readonly expertBias?: Variable | undefined;
  /** k: the number of experts that each row uses. */
  readonly topK: number;
  /**
   * The number of expert groups of equal size; a row uses experts from `groupTopK` groups. Default: 0, which
   * means no groups.
   */
  readonly numGroups?: number | undefined;
  readonly groupTopK?: number | undefined;
  /**
   * int32 [T, k]: the experts to use in place of a selection. A recomputation passes the experts of the first
   * forward pass.
   */
  readonly experts?: Variable | undefined;
}

/** The experts that a router chose for each row, with their probabilities. */
export interface Routing {
  /** [T, k], in the dtype of the logits */
  readonly probabilities: Variable;
  /** int32 [T, k], without a gradient; always a new tensor, even if the caller has given `experts` */
  readonly experts: Variable;
}

/**
 * Chooses the k experts of each row and computes their probabilities. Only the probabilities have a gradient
 * with respect to the logits.
 *
 * @throws KernelError `MTL_SHAPE`, `MTL_DTYPE` or `MTL_ARGUMENT` for operands that do not fit, `MTL_INDEX`
 *   for an invalid expert
 */
export const route = checkedOperation('route', (tape: Tape, options: RouteOptions): Routing => {
  const { logits, expertBias, topK, numGroups, groupTopK, experts: chosen } = options;
  const { scoreFunction, preSoftmax, scalingFactor } = options;
  const scores = { scoreFunction, preSoftmax, scalingFactor };
  const outputs = routerForward({
    logits: logits.tensor,
    expertBias: expertBias?.tensor,
    chosen: chosen?.tensor,
    topK,
    numGroups,
    groupTopK,
    ...scores,
  });
  const probabilities = tape.result(outputs.probabilities, { requiresGradient: logits.requiresGradient });
  const experts = tape.result(outputs.experts, { requiresGradient: false });
  tape.record(probabilities, () => {
    const [savedLogits, savedExperts] = [tape.save(logits), tape.save(experts)];
    return {
      name: 'route',
      inputs: [logits],
      parameters: [],
      saved: [savedLogits, savedExperts],
      backward: ({ outputGradient }) => [
        routerBackward({
          probabilitiesGradient: outputGradient!,
          logits: savedLogits.tensor,
          experts: savedExperts.tensor,
          ...scores,
        }),
      ],
    };
  });
  return { probabilities, experts };
});
