import { adamw, adamwScalars, type Device, Tensor } from '@mtl/kernels';
import type {
  BindOptions,
  BoundOptimizer,
  Optimizer,
  OptimizerRange,
  OptimizerState,
  OptimizerStep,
} from './optimizer.js';

export interface AdamwOptions {
  readonly beta1: number;
  readonly beta2: number;
  readonly epsilon: number;
}

/** AdamW (Loshchilov and Hutter 2019): norm, clipping, update and rounding in two passes over memory. */
export class Adamw implements Optimizer {
  /** The names are PyTorch's. */
  static readonly states: readonly OptimizerState[] = [
    { name: 'exp_avg', dtype: 'float32' },
    { name: 'exp_avg_sq', dtype: 'float32' },
  ];

  readonly states = Adamw.states;
  readonly #options: AdamwOptions;

  constructor(options: AdamwOptions) {
    this.#options = options;
  }

  bind(ranges: readonly OptimizerRange[], { device }: BindOptions): BoundOptimizer {
    return new BoundAdamw(this.#options, ranges, device);
  }
}

class BoundAdamw implements BoundOptimizer {
  readonly #options: AdamwOptions;
  readonly #ranges: readonly OptimizerRange[];
  /** By range, as `adamw` reads them. */
  readonly #segments: readonly Tensor[];
  readonly #scalars: Tensor;
  #weightDecay = 0;

  constructor(options: AdamwOptions, ranges: readonly OptimizerRange[], device: Device) {
    this.#options = options;
    this.#ranges = ranges;
    this.#segments = ranges.map(({ segments }) => {
      const values = segments.flatMap(({ end, group }) => [end, group.decays ? 1 : 0]);
      return Tensor.from(values, { shape: [segments.length, 2], dtype: 'int64', device });
    });
    this.#scalars = Tensor.zeros({ shape: [5], dtype: 'float32', device });
  }

  beginStep({ step, weightDecay, ...rest }: OptimizerStep): void {
    const { beta1, beta2 } = this.#options;
    this.#weightDecay = weightDecay;
    const scalars = this.#scalars;
    adamwScalars({ ...rest, scalars, correction1: 1 - beta1 ** step, correction2: 1 - beta2 ** step });
  }

  update(index: number, { clearGradient }: { readonly clearGradient: boolean }): void {
    const { parameter, modelParameter, gradient, states } = this.#ranges[index]!;
    const [firstMoment, secondMoment] = states as [Tensor, Tensor];
    adamw({
      ...this.#options,
      parameter,
      firstMoment,
      secondMoment,
      modelParameter,
      gradient,
      scalars: this.#scalars,
      segments: this.#segments[index]!,
      weightDecay: this.#weightDecay,
      clearGradient,
    });
  }

  dispose(): void {
    for (const tensor of [...this.#segments, this.#scalars]) tensor.dispose();
  }
}
