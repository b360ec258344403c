import { layerNorm, type Parameter, rmsNorm, type Tape, type Variable } from '@mtl/autograd';
import { replicatedParameter, type TensorParallel } from '@mtl/tensor-parallel';

/** The kind and the epsilon of a norm. Kinds may add fields. */
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

/** Layer norm with weight and bias [H] (Ba et al. 2016). */
export class LayerNorm implements Norm {
  readonly weight: Parameter;
  readonly bias: Parameter;
  readonly parameters: readonly Parameter[];
  readonly #epsilon: number;

  constructor({ name, hiddenSize, specification, tensorParallel }: NormOptions) {
    const vector = (part: string, kind: 'ones' | 'zeros'): Parameter =>
      replicatedParameter({
        name: `${name}.${part}`,
        globalShape: [hiddenSize],
        initialization: { kind },
        tensorParallel,
      });
    this.weight = vector('weight', 'ones');
    this.bias = vector('bias', 'zeros');
    this.parameters = [this.weight, this.bias];
    this.#epsilon = specification.epsilon;
  }

  forward(tape: Tape, input: Variable): Variable {
    return layerNorm(tape, { input, weight: this.weight, bias: this.bias, epsilon: this.#epsilon });
  }
}

/** RMSNorm with weight [H] (Zhang and Sennrich 2019). */
export class RmsNorm implements Norm {
  readonly weight: Parameter;
  readonly parameters: readonly Parameter[];
  readonly #epsilon: number;

  constructor({ name, hiddenSize, specification, tensorParallel }: NormOptions) {
    this.weight = replicatedParameter({
      name: `${name}.weight`,
      globalShape: [hiddenSize],
      initialization: { kind: 'ones' },
      tensorParallel,
    });
    this.parameters = [this.weight];
    this.#epsilon = specification.epsilon;
  }

  forward(tape: Tape, input: Variable): Variable {
    return rmsNorm(tape, { input, weight: this.weight, epsilon: this.#epsilon });
  }
}
