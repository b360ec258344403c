import { layerNorm, type Parameter, type Tape, type Variable } from '@mtl/autograd';
import { replicatedParameter } from '@mtl/tensor-parallel';
import type { Norm, NormOptions } from './norm.js';

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
