import { adamw, adamwScalars, type Device, Tensor } from '@mtl/kernels';
import { ModelOptimizer, type ModelOptimizerOptions } from './model-optimizer.js';
import type {
  BindOptions,
  BoundOptimizer,
  Optimizer,
  OptimizerRange,
  OptimizerState,
  OptimizerStep,
} from './optimizer.js';
import type { ParameterStore } from './store/parameter-store.js';

/** Options of AdamW; the defaults are PyTorch's. */
interface AdamwOptions {
  /** Decay rate of the first moment. Default 0.9. */
  readonly beta1?: number | undefined;
  /** Decay rate of the second moment. Default 0.999. */
  readonly beta2?: number | undefined;
  /** Term added to the denominator. Default 1e-8. */
  readonly epsilon?: number | undefined;
}

type AdamwNumbers = { readonly [Name in keyof AdamwOptions]-?: number };

/** AdamW (Loshchilov and Hutter 2019): norm, clipping, update and rounding in two passes over memory. */
export class Adamw implements Optimizer {
  /** The names are PyTorch's. */
  static readonly states: readonly OptimizerState[] = [
    { name: 'exp_avg', dtype: 'float32' },
    { name: 'exp_avg_sq', dtype: 'float32' },
  ];

  readonly states = Adamw.states;
  readonly #options: AdamwNumbers;

  constructor({ beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8 }: AdamwOptions = {}) {
    this.#options = { beta1, beta2, epsilon };
  }

  bind(ranges: readonly OptimizerRange[], { device }: BindOptions): BoundOptimizer {
    return new BoundAdamw(this.#options, ranges, device);
  }
}

class BoundAdamw implements BoundOptimizer {
  readonly #options: AdamwNumbers;
  readonly #ranges: readonly OptimizerRange[];
  /** The segments of each range, in the layout that `adamw` reads. */
  readonly #segments: readonly Tensor[];
  readonly #scalars: Tensor;
  #weightDecay = 0;

  constructor(options: AdamwNumbers, ranges: readonly OptimizerRange[], device: Device) {
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

  [Symbol.dispose](): void {
    this.dispose();
  }
}

export interface AdamwOptimizerOptions extends Omit<ModelOptimizerOptions, 'optimizer'>, AdamwOptions {}

/** A `ModelOptimizer` with the update rule `Adamw`, with the defaults of PyTorch's AdamW. */
export class AdamwOptimizer extends ModelOptimizer {
  constructor(
    stores: readonly ParameterStore[],
    { beta1, beta2, epsilon, ...options }: AdamwOptimizerOptions = {},
  ) {
    super(stores, { ...options, optimizer: new Adamw({ beta1, beta2, epsilon }) });
  }
}
