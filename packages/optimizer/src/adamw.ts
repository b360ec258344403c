import { adamw, adamwScalars, type Device, precisionAwareAdamw, Tensor } from '@mtl/kernels';
import type { StateDtype } from './kept-values.js';
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
  /** The dtype in which the first moment is stored. Default: `float32`. */
  readonly expAvgDtype?: StateDtype | undefined;
  /** The dtype in which the second moment is stored. Default: `float32`. */
  readonly expAvgSqDtype?: StateDtype | undefined;
}

type AdamwNumbers = { readonly [Name in 'beta1' | 'beta2' | 'epsilon']: number };

/**
 * AdamW (Loshchilov and Hutter 2019): computes the norm, clipping, the update and rounding in two passes over
 * memory.
 */
export class Adamw implements Optimizer {
  /** The names are PyTorch's. */
  readonly states: readonly OptimizerState[];
  readonly isPrecisionAware = true;
  readonly #options: AdamwNumbers;

  constructor(options: AdamwOptions = {}) {
    const { beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8 } = options;
    const { expAvgDtype = 'float32', expAvgSqDtype = 'float32' } = options;
    this.#options = { beta1, beta2, epsilon };
    this.states = [
      { name: 'exp_avg', dtype: expAvgDtype },
      { name: 'exp_avg_sq', dtype: expAvgSqDtype },
    ];
  }

  bind(ranges: readonly OptimizerRange[], { device }: BindOptions): BoundOptimizer {
    return new BoundAdamw(this.#options, ranges, device);
  }
}

class BoundAdamw implements BoundOptimizer {
  readonly #options: AdamwNumbers;
  readonly #ranges: readonly OptimizerRange[];
  /** The segments of each range, in the layout that the operation `adamw` reads. */
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
    const range = this.#ranges[index]!;
    const { parameter, remainder, modelParameter, gradient, scales } = range;
    const [firstMoment, secondMoment] = range.states as [Tensor, Tensor];
    const operands = {
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
    };
    const isAllFloat32 = [parameter, gradient, ...range.states].every(({ dtype }) => dtype === 'float32');
    if (isAllFloat32) adamw(operands);
    else precisionAwareAdamw({ ...operands, remainder, firstScales: scales[0], secondScales: scales[1] });
  }

  dispose(): void {
    for (const tensor of [...this.#segments, this.#scalars]) tensor.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

export interface AdamwOptimizerOptions extends Omit<ModelOptimizerOptions, 'optimizer'>, AdamwOptions {}

/** A `ModelOptimizer` whose update rule is `Adamw`. The defaults are the same as in PyTorch's AdamW. */
export class AdamwOptimizer extends ModelOptimizer {
  constructor(
    stores: readonly ParameterStore[],
    { beta1, beta2, epsilon, expAvgDtype, expAvgSqDtype, ...options }: AdamwOptimizerOptions = {},
  ) {
    const optimizer = new Adamw({ beta1, beta2, epsilon, expAvgDtype, expAvgSqDtype });
    super(stores, { ...options, optimizer });
  }
}
