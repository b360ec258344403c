import {
  cast,
  layerNormBackward,
  layerNormForward,
  rmsNormBackward,
  rmsNormForward,
  Tensor,
  tidy,
} from '@mtl/kernels';
import type { Parameter } from '../parameter.js';

/** A norm over the features of every query and every key: layer norm with biases, RMSNorm without. */
export interface HeadNorm {
  /** [D] */
  readonly queryWeight: Parameter;
  /** [D], with `keyBias` or not at all. */
  readonly queryBias?: Parameter | undefined;
  /** [D] */
  readonly keyWeight: Parameter;
  /** [D] */
  readonly keyBias?: Parameter | undefined;
  readonly epsilon: number;
}

/** What the norm of all queries, or of all keys, computes with. */
interface NormOperands {
  readonly weight: Parameter;
  readonly bias: Parameter | undefined;
  /** [rows] */
  readonly rstd: Tensor;
  /** [rows], of layer norm. */
  readonly mean: Tensor | undefined;
}

/** A tensor with the elements of a strided view. */
function copied(view: Tensor): Tensor {
  const copy = emptyLike(view);
  cast({ output: copy, input: view });
  return copy;
}

const emptyLike = ({ shape, dtype, device }: Tensor): Tensor => Tensor.empty({ shape, dtype, device });

/**
 * Normalizes the views of queries or keys in packed projections. RMSNorm goes from view to view; layer norm
 * takes no views, so that they are copied before it and after it.
 */
export function headNormForward(
  { weight, bias, rstd, mean }: NormOperands,
  { output, input, epsilon }: { readonly output: Tensor; readonly input: Tensor; readonly epsilon: number },
): void {
  if (bias === undefined) {
    rmsNormForward({ output, rstd, input, weight: weight.data, epsilon });
    return;
  }
  tidy(() => {
    const [whole, normalized] = [copied(input), emptyLike(input)];
    layerNormForward({
      output: normalized,
      mean: mean!,
      rstd,
      input: whole,
      weight: weight.data,
      bias: bias.data,
      epsilon,
    });
    cast({ output, input: normalized });
  });
}

/** The gradients of `headNormForward`. */
export function headNormBackward(
  { weight, bias, rstd, mean }: NormOperands,
  views: {
    /** Left out, only the gradients of the parameters are computed. May be `outputGradient`. */
    readonly inputGradient: Tensor | undefined;
    readonly outputGradient: Tensor;
    readonly input: Tensor;
    /** Whether the gradients of the parameters are added to, unless they are frozen. */
    readonly addsToParameters: boolean;
  },
): void {
  const { inputGradient, outputGradient, input, addsToParameters } = views;
  const gradientOf = (parameter: Parameter): Tensor | undefined =>
    addsToParameters && !parameter.isFrozen ? parameter.mainGradient : undefined;
  const weightGradient = gradientOf(weight);
  if (bias === undefined) {
    const operands = { inputGradient, weightGradient, outputGradient, input };
    rmsNormBackward({ ...operands, rstd, weight: weight.data });
    return;
  }
  tidy(() => {
    const gradient = copied(outputGradient);
    layerNormBackward({
      inputGradient: inputGradient && gradient,
      weightGradient,
      biasGradient: gradientOf(bias),
      outputGradient: gradient,
      input: copied(input),
      mean: mean!,
      rstd,
      weight: weight.data,
    });
    if (inputGradient !== undefined) cast({ output: inputGradient, input: gradient });
  });
}
