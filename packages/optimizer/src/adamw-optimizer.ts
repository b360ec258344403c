import { adamw, sumOfSquares, Tensor } from '@mtl/kernels';
import type { ParameterBuffers } from './parameter-buffers.js';

export interface AdamwOptimizerOptions {
  readonly beta1: number;
  readonly beta2: number;
  readonly epsilon: number;
  readonly weightDecay: number;
  /** Largest gradient norm; larger gradients are scaled down to it. 0: no clipping. */
  readonly clipGradient: number;
}

export interface OptimizerStepOptions {
  readonly learningRate: number;
  /** What the loss was multiplied with (fp16); gradients are divided by it. Default 1. */
  readonly lossScale?: number;
}

export interface OptimizerStepResult {
  /** Norm of the gradients of all parameters, unscaled, before clipping. Infinite or NaN when they overflowed. */
  readonly gradientNorm: number;
  /** Whether the parameters were left as they are because a gradient was not finite. */
  readonly skipped: boolean;
}

/** A named state tensor with the range layout of the buffers, for checkpoints. */
export interface OptimizerStateTensor {
  readonly name: 'exp_avg' | 'exp_avg_sq';
  readonly buffer: Tensor;
}

/**
 * AdamW over flat buffers: norm, clipping, update, rounding to the model's dtype and clearing of the gradients, in two
 * passes over memory.
 */
export class AdamwOptimizer {
  readonly buffers: ParameterBuffers;
  readonly #options: AdamwOptimizerOptions;
  readonly #firstMoment: Tensor;
  readonly #secondMoment: Tensor;
  readonly #segments: Tensor;
  readonly #scalars: Tensor;
  readonly #squares: Tensor;
  #numSteps = 0;

  constructor(buffers: ParameterBuffers, options: AdamwOptimizerOptions) {
    this.buffers = buffers;
    this.#options = options;
    const { device } = buffers.master;
    const shape = [buffers.size];
    this.#firstMoment = Tensor.zeros({ shape, dtype: 'float32', device });
    this.#secondMoment = Tensor.zeros({ shape, dtype: 'float32', device });
    const segments = buffers.ranges.flatMap(({ end, parameter }) => [end, parameter.decays ? 1 : 0]);
    this.#segments = Tensor.from(segments, { shape: [buffers.ranges.length, 2], dtype: 'int64', device });
    this.#scalars = Tensor.zeros({ shape: [4], dtype: 'float32', device });
    this.#squares = Tensor.zeros({ shape: [1], dtype: 'float64', device });
  }

  /** Updates that have been made: the exponent of the bias corrections. */
  get numSteps(): number {
    return this.#numSteps;
  }

  set numSteps(value: number) {
    this.#numSteps = value;
  }

  /** The moments, flat, in the order of the buffers. */
  get state(): readonly OptimizerStateTensor[] {
    return [
      { name: 'exp_avg', buffer: this.#firstMoment },
      { name: 'exp_avg_sq', buffer: this.#secondMoment },
    ];
  }

  /** Uses up the main gradients: updates the parameters, or skips when a gradient is not finite; clears them anyway. */
  step({ learningRate, lossScale = 1 }: OptimizerStepOptions): OptimizerStepResult {
    const { gradients, master, model } = this.buffers;
    sumOfSquares({ output: this.#squares, input: gradients });
    const gradientNorm = Math.sqrt(this.#squares.item()) / lossScale;
    if (!Number.isFinite(gradientNorm)) {
      gradients.zero();
      return { gradientNorm, skipped: true };
    }
    this.#numSteps += 1;
    const { beta1, beta2, epsilon, weightDecay, clipGradient } = this.#options;
    // Megatron and PyTorch: clip only above the limit, with 1e-6 against division by zero
    const clipping = clipGradient > 0 ? Math.min(1, clipGradient / (gradientNorm + 1e-6)) : 1;
    this.#scalars.write(
      Float32Array.of(
        learningRate,
        1 - beta1 ** this.#numSteps,
        1 - beta2 ** this.#numSteps,
        clipping / lossScale,
      ),
    );
    adamw({
      parameter: master,
      firstMoment: this.#firstMoment,
      secondMoment: this.#secondMoment,
      modelParameter: model.dtype === 'float32' ? undefined : model,
      gradient: gradients,
      scalars: this.#scalars,
      segments: this.#segments,
      beta1,
      beta2,
      epsilon,
      weightDecay,
      clearGradient: true,
    });
    return { gradientNorm, skipped: false };
  }

  dispose(): void {
    const own = [this.#firstMoment, this.#secondMoment, this.#segments, this.#scalars, this.#squares];
    for (const tensor of own) tensor.dispose();
  }
}
