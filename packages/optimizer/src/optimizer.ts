import type { Parameter } from '@mtl/autograd';
import type { Device, Tensor } from '@mtl/kernels';
import type { StateDtype } from './kept-values.js';
import type { ParameterRange } from './store/flat-layout.js';
import type { WholeMatrices } from './whole-matrices.js';

/** A state that an optimizer has for every element of a parameter, such as a moment of its gradients. */
export interface OptimizerState {
  /** The name of the state in checkpoints: `optimizer.NAME.PARAMETER`. */
  readonly name: string;
  /** Checkpoints have float32 whatever memory keeps. */
  readonly dtype: StateDtype;
}

/** The elements of a parameter in a range, with the padding before them. */
export interface OptimizerSegment {
  /** The end of the segment (exclusive), counted from the start of the range. */
  readonly end: number;
  readonly group: ParameterGroup;
  /** The parameter's range in its store. Absent only for padding. */
  readonly range?: ParameterRange;
}

/** N consecutive elements of a store for a single update call. The caller owns the tensors. */
export interface OptimizerRange {
  /** The position of the first element in the store. */
  readonly start: number;
  /**
   * [N] float32: the values to train. With `remainder`, bfloat16: the rounded values, for the model's
   * computation.
   */
  readonly parameter: Tensor;
  /** [2 N] uint8: the lower 16 bits of the values (`splitRemainder`), if the store has remainders. */
  readonly remainder: Tensor | undefined;
  /** [N] in the model's dtype: receives the rounded values. Absent if `parameter` itself has this dtype. */
  readonly modelParameter: Tensor | undefined;
  /** [N] in the store's `gradientDtype`: reduced over all ranks, multiplied by the loss scale. */
  readonly gradient: Tensor;
  /** [N] each, in the order of `Optimizer.states`; zero before the first step. */
  readonly states: readonly Tensor[];
  /** [number of segments] float32 each: the factors of the states that have scales, zero at first. */
  readonly scales: readonly (Tensor | undefined)[];
  /**
   * The parameters of the range in ascending order. Padding after the last parameter is zero and stays zero.
   */
  readonly segments: readonly OptimizerSegment[];
}

export interface OptimizerStep {
  /** The number of the update, from 1 on. */
  readonly step: number;
  readonly learningRate: number;
  /** Decoupled decay of groups that decay. */
  readonly weightDecay: number;
  /** The loss scale. It is a factor of the gradients, and the update divides by it. */
  readonly lossScale: number;
  /** Gradients with a larger norm are scaled down to this norm. 0: no clipping. */
  readonly clipGrad: number;
  /** [1] float64: the sum of squares of all gradients of the model. */
  readonly squares: Tensor;
  /** [1] float64: receives the norm, unscaled and before clipping; infinite or NaN where a gradient is. */
  readonly gradientNorm: Tensor;
}

/** An optimizer, with the ranges that this process updates. */
export interface BoundOptimizer {
  /**
   * Computes the gradient norm and other values that the updates of a step share. A rule that updates
   * complete matrices also replaces the gradients by its directions, and calls `WholeMatrices.gather`. This
   * method does not wait for the device.
   */
  beginStep(step: OptimizerStep): void;
  /**
   * Updates range number `index`, or leaves it unchanged if the norm is not finite. `clearGradient`: true to
   * set the gradient to zero in both cases.
   */
  update(index: number, options: { readonly clearGradient: boolean }): void;
  dispose(): void;
}

export interface BindOptions {
  /** The device of the ranges' tensors. */
  readonly device: Device;
  /** The matrices, for rules that need complete matrices of parameters that several ranks share. */
  readonly matrices: WholeMatrices;
}

/**
 * An update rule: its states, and the change of values and states in a step. A rule does not depend on
 * processes. `ModelOptimizer` reduces gradients, divides elements over the ranks of a distributed optimizer
 * and gathers the results. Checkpoints and memory predictions read `states`.
 */
export interface Optimizer {
  readonly states: readonly OptimizerState[];
  /**
   * True if the rule can update values whose lower halves are remainders, and can use gradients in bfloat16.
   * Default: false, and a store with such values or gradients is an error.
   */
  readonly isPrecisionAware?: boolean;
  /** Prepares to update the ranges. */
  bind(ranges: readonly OptimizerRange[], options: BindOptions): BoundOptimizer;
}

/** The properties of a parameter that update rules depend on. */
export interface ParameterGroup {
  /** True if weight decay applies. */
  readonly decays: boolean;
  /** A matrix multiplies activations or holds a row per token; vectors are biases and norms. */
  readonly kind: 'matrix' | 'vector';
  /**
   * The number of outputs of the complete (unsharded) parameter: all dimensions of a matrix except the last.
   */
  readonly fanOut: number;
  /** The number of inputs of a matrix, which is its last dimension. 1 for a vector. */
  readonly fanIn: number;
}

export function describeParameterGroup({ decays, globalShape }: Parameter): ParameterGroup {
  // a bias may have several dimensions, but is one vector; it never decays (Megatron's rule)
  const kind = decays && globalShape.length > 1 ? 'matrix' : 'vector';
  const size = globalShape.reduce((product, each) => product * each, 1);
  const fanIn = kind === 'matrix' ? globalShape.at(-1)! : 1;
  return { decays, kind, fanIn, fanOut: size / fanIn };
}
