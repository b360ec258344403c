import { layerNorm, type Parameter, rmsNorm, type Tape, type Variable } from '@mtl/autograd';
import type { LayerFactory } from './layer-factory.js';
import type { EarlierSharding } from './layer-sharding.js';

/** A norm's kind and epsilon. Registered kinds may add fields. */
export interface NormSpecification {
  readonly kind: string;
  /** A small value that is added to the variance or to the mean square, for numerical stability. */
  readonly epsilon: number;
}

export interface NormOptions<Specification extends NormSpecification = NormSpecification>
  extends EarlierSharding {
  /** The prefix of parameter names, for example `decoder.layers.3.input_layernorm`. */
  readonly name: string;
  /** H */
  readonly hiddenSize: number;
  readonly specification: Specification;
  /** Makes the parameters of the norm. */
  readonly factory: LayerFactory;
}

/** A normalization layer for hidden states. */
export interface Norm {
  /** The norm's parameters, which are replicated on every process (see `LayerFactory.replicated`). */
  readonly parameters: readonly Parameter[];
  /** Normalizes each row of [..., H] separately. */
  forward(tape: Tape, input: Variable): Variable;
}

/** Layer norm with weight and bias [H] (Ba et al. 2016). */
export class LayerNorm implements Norm {
  readonly weight: Parameter;
  readonly bias: Parameter;
  readonly parameters: readonly Parameter[];
  readonly #epsilon: number;

  constructor({ name, hiddenSize, specification, factory }: NormOptions) {
    const vector = (part: string, kind: 'ones' | 'zeros'): Parameter =>
      factory.replicated({
        name: `${name}.${part}`,
        globalShape: [hiddenSize],
        initialization: { kind },
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

  constructor({ name, hiddenSize, specification, factory }: NormOptions) {
    this.weight = factory.replicated({
      name: `${name}.weight`,
      globalShape: [hiddenSize],
      initialization: { kind: 'ones' },
    });
    this.parameters = [this.weight];
    this.#epsilon = specification.epsilon;
  }

  forward(tape: Tape, input: Variable): Variable {
    return rmsNorm(tape, { input, weight: this.weight, epsilon: this.#epsilon });
  }
}
