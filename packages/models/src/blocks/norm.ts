import type { Parameter, Tape, Variable } from '@mtl/autograd';
import type { TensorParallel } from '@mtl/tensor-parallel';

/** Which norm, with what. Kinds may add fields. */
export interface NormSpecification {
  readonly kind: string;
  /** Added to the variance, or to the mean square. */
  readonly epsilon: number;
}

export interface NormOptions<Specification extends NormSpecification = NormSpecification> {
  /** Prefix of parameter names: `decoder.layers.3.input_layernorm`. */
  readonly name: string;
  /** H */
  readonly hiddenSize: number;
  readonly specification: Specification;
  readonly tensorParallel: TensorParallel | undefined;
}

/** A normalization of hidden states. */
export interface Norm {
  /** Replicated over the tensor-parallel ranks (`replicatedParameter`). */
  readonly parameters: readonly Parameter[];
  /** [..., H] to [..., H], each row for itself. */
  forward(tape: Tape, input: Variable): Variable;
}
