import type { Parameter } from '@mtl/autograd';
import type { Device, Tensor } from '@mtl/kernels';
import type { StateDtype } from './kept-values.js';
import type { ParameterRange } from './store/flat-layout.js';
import type { WholeMatrices } from './whole-matrices.js';

/**
 * A state that an optimizer keeps for every element of a parameter, for example a moment of its gradients.
 */
export interface OptimizerState {
  /** The name of the state in checkpoints: `optimizer.NAME.PARAMETER`. */
  readonly name: string;
  /** Checkpoints have float32 whatever memory keeps. */
  readonly dtype: StateDtype;
}

/** A parameter's elements within an `OptimizerRange`, including the padding before them. */
export interface OptimizerSegment {
  /** The end (exclusive) of the segment, relative to the start of the `OptimizerRange`. */
  readonly end: number;
  readonly group: ParameterGroup;
  /** The parameter's range in its store. Undefined only for padding. */
  readonly range?: ParameterRange;
}

/** N consecutive elements of a store that one call of `update` updates. The caller owns the tensors. */
export interface OptimizerRange {
  /** The index of the first element in the store. */
  readonly start: number;
  /**
   * float32 [N]: the values to train. If there is a `remainder`, bfloat16 [N]: the rounded values, with which
   * the model computes.
   */
  readonly parameter: Tensor;
  /**
   * uint8 [2 * N]: the lower 16 bits of the values (see `splitRemainder`). Undefined if the store has no
   * remainders.
   */
  readonly remainder: Tensor | undefined;
  /**
   * [N] in the model's dtype: receives the rounded values. Undefined if `parameter` itself has this dtype.
   */
  readonly modelParameter: Tensor | undefined;
  /**
   * [N] in the store's `gradientDtype`: the gradient, reduced over all ranks and still multiplied by the loss
   * scale.
   */
  readonly gradient: Tensor;
  /** One tensor [N] per state, in the order of `Optimizer.states`. Zero before the first step. */
  readonly states: readonly Tensor[];
  /**
   * float32, one factor per segment, for each state whose dtype has scales; undefined for all other states.
   * Zero before the first step.
   */
  readonly scales: readonly (Tensor | undefined)[];
  /**
   * The segments of the range's parameters, in ascending order. Padding after the last parameter is zero and
   * stays zero.
   */
  readonly segments: readonly OptimizerSegment[];
}

export interface OptimizerStep {
  /** The number of the update, from 1 on. */
  readonly step: number;
  readonly learningRate: number;
  /** Decoupled decay of groups that decay. */
  readonly weightDecay: number;
  /** The loss scale. Gradients contain it as a factor, so the update divides by it. */
  readonly lossScale: number;
  /** Gradients with a larger norm are scaled down to this norm. 0 means no clipping. */
  readonly clipGrad: number;
  /** float64 [1]: the sum of squares over all gradients of the model. */
  readonly squares: Tensor;
  /**
   * float64 [1]: receives the norm before clipping, without the loss scale. Infinite or NaN if any gradient
   * is infinite or NaN.
   */
  readonly gradientNorm: Tensor;
}

/** An optimizer together with the ranges that this process updates. */
export interface BoundOptimizer {
  /**
   * Computes the gradient norm and other values that all updates of a step use. A rule that updates complete
   * matrices also replaces the gradients by its directions and calls `WholeMatrices.gather`. This method does
   * not wait for the device.
   */
  beginStep(step: OptimizerStep): void;
  /**
   * Updates the range with index `index`, or leaves it unchanged if the norm is not finite. In both cases,
   * sets its gradient to zero if `clearGradient` is true.
   */
  update(index: number, options: { readonly clearGradient: boolean }): void;
  dispose(): void;
}

export interface BindOptions {
  /** The device of the ranges' tensors. */
  readonly device: Device;
  /** Provides complete matrices to rules that need them, even if several ranks share a parameter. */
  readonly matrices: WholeMatrices;
}

/**
 * An update rule: which states it has, and how a step changes values and states. A rule does not depend on
 * processes: `ModelOptimizer` reduces gradients, divides elements over the ranks of a distributed optimizer
 * and gathers the results. Checkpoints and memory predictions read `states`.
 */
export interface Optimizer {
  readonly states: readonly OptimizerState[];
  /**
   * True if the rule can update values whose lower halves are remainders and can use bfloat16 gradients. By
   * default, it cannot, and rejects a store with such values or gradients.
   */
  readonly isPrecisionAware?: boolean;
  /** Prepares to update the ranges. */
  bind(ranges: readonly OptimizerRange[], options: BindOptions): BoundOptimizer;
}

/** The properties of a parameter that determine how rules update it. */
export interface ParameterGroup {
  /** True if weight decay applies. */
  readonly decays: boolean;
  /**
   * A matrix is multiplied by activations or holds one row per token. Vectors are biases and norm parameters.
   */
  readonly kind: 'matrix' | 'vector';
  /**
   * How many outputs the complete (unsharded) parameter has: the product of all dimensions, for a matrix
   * without the last.
   */
  readonly fanOut: number;
  /** How many inputs a matrix has: its last dimension. 1 for a vector. */
  readonly fanIn: number;
}

export function describeParameterGroup({ decays, globalShape }: Parameter): ParameterGroup {
  // a bias may have several dimensions but counts as one vector; it never decays (Megatron's rule)
  const kind = decays && globalShape.length > 1 ? 'matrix' : 'vector';
  const size = globalShape.reduce((product, each) => product * each, 1);
  const fanIn = kind === 'matrix' ? globalShape.at(-1)! : 1;
  return { decays, kind, fanIn, fanOut: size / fanIn };
}
