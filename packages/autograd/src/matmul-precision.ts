import {
  type GeluKind,
  linearGeluBackward,
  linearGeluForward,
  linearResidualForward,
  linearWeightGradient,
  matmul,
  type Tensor,
} from '@mtl/kernels';

/** The operands of `output = input * weight^T + bias`, where `output` is `[..., O]`. */
export interface ForwardMatmul {
  readonly output: Tensor;
  /** [..., I] */
  readonly input: Tensor;
  /** [O, I] */
  readonly weight: Tensor;
  /** [O] */
  readonly bias?: Tensor | undefined;
}

/** Operands of `inputGradient [..., I] = outputGradient weight`. */
export interface InputGradientMatmul {
  readonly inputGradient: Tensor;
  /** [..., O] */
  readonly outputGradient: Tensor;
  /** [O, I] */
  readonly weight: Tensor;
}

/** The operands of `outputGradient^T * input`, which is added to `weightGradient` `[O, I]` or replaces it. */
export interface WeightGradientMatmul {
  readonly weightGradient: Tensor;
  /** [..., O] */
  readonly outputGradient: Tensor;
  /** [..., I] */
  readonly input: Tensor;
  readonly accumulate: boolean;
}

/**
 * State that the matmuls of a weight keep between steps, such as the weight's largest values in past steps.
 * The state describes the complete weight, so all ranks that have slices or copies of the weight keep equal
 * states.
 */
export interface PrecisionState {
  /** The name of the state in checkpoints: `optimizer.NAME.PARAMETER`. */
  readonly name: string;
  /** float32; owned by the precision. */
  readonly tensor: Tensor;
}

/** Matmuls that are fused with the previous or next operation, in one pass over memory. */
export interface FusedMatmuls {
  /** Computes `preactivation = input * weight^T + bias` and `output = gelu(preactivation)`. */
  gelu(
    call: ForwardMatmul & {
      readonly bias: Tensor;
      readonly preactivation: Tensor;
      readonly kind: GeluKind;
    },
  ): void;
  /** Computes the gradient of `preactivation`, the input of the GELU whose output was the matmul's input. */
  geluGradient(call: InputGradientMatmul & { readonly preactivation: Tensor; readonly kind: GeluKind }): void;
  /** Computes output = residual + input weight^T + bias. */
  residual(call: ForwardMatmul & { readonly residual: Tensor }): void;
  /** Adds the gradients of weight and bias to their main gradients, in one pass. */
  weightAndBiasGradient(
    call: Omit<WeightGradientMatmul, 'accumulate'> & { readonly biasGradient: Tensor },
  ): void;
}

/**
 * Computes the three matmuls of a weight (forward, input gradient, weight gradient) on this rank's shard of
 * the weight. Every operation that multiplies by a weight calls this object. An object with state belongs to
 * a single weight (see `Parameter.computeWith`).
 */
export interface MatmulPrecision {
  /** Computes the output. Recomputation calls it again. */
  forward(call: ForwardMatmul): void;
  inputGradient(call: InputGradientMatmul): void;
  weightGradient(call: WeightGradientMatmul): void;
  /**
   * The fused matmuls of this precision. Default: none; the operations then compute each component of a fused
   * matmul separately.
   */
  readonly fused?: FusedMatmuls | undefined;
  /** The states that checkpoints store. Default: none. */
  readonly state?: readonly PrecisionState[] | undefined;
}

/** A precision that computes in the dtype of the operands, and sums in float32. */
export const plainPrecision: MatmulPrecision = {
  forward: ({ output, input, weight, bias }) =>
    matmul({ output, left: input, right: weight, transposeRight: true, bias }),
  inputGradient: ({ inputGradient, outputGradient, weight }) =>
    matmul({ output: inputGradient, left: outputGradient, right: weight }),
  weightGradient: ({ weightGradient, outputGradient, input, accumulate }) =>
    matmul({ output: weightGradient, left: outputGradient, right: input, transposeLeft: true, accumulate }),
  fused: {
    gelu: linearGeluForward,
    geluGradient: linearGeluBackward,
    residual: linearResidualForward,
    weightAndBiasGradient: linearWeightGradient,
  },
};
