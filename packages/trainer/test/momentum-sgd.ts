import { adamwScalars, cast, type Device, Tensor } from '@mtl/kernels';
import type { BoundOptimizer, Optimizer, OptimizerRange, OptimizerStep } from '@mtl/optimizer';

/**
 * Stochastic gradient descent with momentum, computed on the host: an update rule that no package knows, with
 * one state instead of AdamW's two.
 */
export class MomentumSgd implements Optimizer {
  readonly states = [{ name: 'momentum', dtype: 'float32' }] as const;
  readonly #momentum: number;

  constructor({ momentum }: { readonly momentum: number }) {
    this.#momentum = momentum;
  }

  bind(ranges: readonly OptimizerRange[], { device }: { readonly device: Device }): BoundOptimizer {
    const momentum = this.#momentum;
    const scalars = Tensor.zeros({ shape: [5], dtype: 'float32', device });
    let weightDecay = 0;
    return {
      beginStep(step: OptimizerStep): void {
        weightDecay = step.weightDecay;
        // clipping and overflow are the same for every rule
        adamwScalars({ ...step, scalars, correction1: 1, correction2: 1 });
      },
      update(index: number, { clearGradient }): void {
        const { parameter, modelParameter, gradient, states, segments } = ranges[index]!;
        const [rate, , , factor, updates] = scalars.toArray() as [number, number, number, number, number];
        if (updates !== 0) {
          const [values, gradients, velocity] = [parameter, gradient, states[0]!].map(
            (tensor) => tensor.read() as Float32Array,
          ) as [Float32Array, Float32Array, Float32Array];
          let start = 0;
          for (const { end, group } of segments) {
            const decay = group.decays ? rate * weightDecay : 0;
            for (let at = start; at < end; at++) {
              velocity[at] = momentum * velocity[at]! + gradients[at]! * factor;
              values[at] = values[at]! * (1 - decay) - rate * velocity[at]!;
            }
            start = end;
          }
          parameter.write(values);
          states[0]!.write(velocity);
          if (modelParameter !== undefined) cast({ output: modelParameter, input: parameter });
        }
        if (clearGradient) gradient.zero();
      },
      dispose: () => scalars.dispose(),
    };
  }
}
