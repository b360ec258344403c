import { type Parameter, rmsNorm, type Tape, type Variable } from '@mtl/autograd';
import { replicatedParameter } from '@mtl/tensor-parallel';
import type { Norm, NormOptions } from './norm.js';

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
