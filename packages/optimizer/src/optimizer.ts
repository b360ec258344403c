import type { Parameter } from '@mtl/autograd';
import type { Device, Tensor } from '@mtl/kernels';
import type { StateDtype } from './kept-values.js';
import type { ParameterRange } from './store/flat-layout.js';
import type { WholeMatrices } from './whole-matrices.js';

/** A state that an optimizer keeps for every element of a parameter, such as a moment of its gradients. */
export interface OptimizerState {
  /** The name of the state in checkpoints: `optimizer.NAME.PARAMETER`. */
  readonly name: string;
  /** Checkpoints have float32 whatever memory keeps. */
  readonly dtype: StateDtype;
}

/** The elements of one parameter in a range, with the padding before them. */
export interface OptimizerSegment {
  /** The end of the segment (exclusive), counted from the start of the range. */
  readonly end: number;
  readonly group: ParameterGroup;
  /** The parameter in its store; absent where there is padding only. */
  readonly range?: ParameterRange;
}

/** N consecutive elements of a store, which one call updates. The tensors belong to the caller. */
export interface OptimizerRange {
  /** The position of its first element in the store. */
  readonly start: number;
  /**
   * [N] float32: the values that are trained. With `remainder`, bfloat16: the upper halves of the values,
   * rounded, which the model computes with.
   */
  readonly parameter: Tensor;
  /** [2 N] uint8: the lower 16 bits of the values (`splitRemainder`), if the store keeps them so. */
  readonly remainder: Tensor | undefined;
  /** [N] in the model's dtype: receives the rounded values. Absent where it is `parameter`. */
  readonly modelParameter: Tensor | undefined;
  /** [N] in the store's `gradientDtype`: reduced over all ranks, multiplied by the loss scale. */
  readonly gradient: Tensor;
  /** [N] each, in the order of `Optimizer.states`; zero before the first step. */
  readonly states: readonly Tensor[];
  /** [number of segments] float32 each: the factors of the states that have scales, zero at first. */
  readonly scales: readonly (Tensor | undefined)[];
  /** The parameters of the range in ascending order. Padding after the last one is zero and stays zero. */
  readonly segments: readonly OptimizerSegment[];
}

export interface OptimizerStep {
  /** The number of the update, from 1 on. */
  readonly step: number;
  readonly learningRate: number;
  /** Decoupled decay of groups that decay. */
  readonly weightDecay: number;
  /** The loss scale: the gradients contain this factor, and the update divides by it. */
  readonly lossScale: number;
  /** Gradients of a larger norm are scaled down to it. 0: no clipping. */
  readonly clipGrad: number;
  /** [1] float64: the sum of squares of all gradients of the model. */
  readonly squares: Tensor;
  /** [1] float64: receives the norm, unscaled and before clipping; infinite or NaN where a gradient is. */
  readonly gradientNorm: Tensor;
}

/** An optimizer with the ranges that this process updates. */
export interface BoundOptimizer {
  /**
   * Computes the gradient norm and other values that the updates of a step share; a rule over whole matrices
   * writes its directions in place of the gradients and calls `WholeMatrices.gather`. Does not wait for the
   * device.
   */
  beginStep(step: OptimizerStep): void;
  /**
   * Updates range number `index`, or leaves it unchanged if the norm is not finite. `clearGradient`: sets the
   * gradient to zero, updated or not.
   */
  update(index: number, options: { readonly clearGradient: boolean }): void;
  dispose(): void;
}

export interface BindOptions {
  /** The device of the ranges' tensors. */
  readonly device: Device;
  /** The matrices, for rules that need whole matrices of parameters that several ranks hold. */
  readonly matrices: WholeMatrices;
}

/**
 * An update rule: the states that it keeps, and the change of values and states by a step. A rule does not
 * depend on processes: `ModelOptimizer` reduces gradients, divides elements over the ranks of a distributed
 * optimizer and gathers the results, and checkpoints and memory predictions read `states`.
 */
export interface Optimizer {
  readonly states: readonly OptimizerState[];
  /**
   * True if the rule updates values whose lower halves are remainders, and from gradients in bfloat16.
   * Default: such stores are refused.
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
  /** Outputs of the whole (unsharded) parameter: all dimensions of a matrix but the last. */
  readonly fanOut: number;
  /** Inputs of a matrix: its last dimension. 1 for a vector. */
  readonly fanIn: number;
}

export function describeParameterGroup({ decays, globalShape }: Parameter): ParameterGroup {
  // a bias may have several dimensions, which fold to one: it never decays (Megatron's rule)
  const kind = decays && globalShape.length > 1 ? 'matrix' : 'vector';
  const size = globalShape.reduce((product, each) => product * each, 1);
  const fanIn = kind === 'matrix' ? globalShape.at(-1)! : 1;
  return { decays, kind, fanIn, fanOut: size / fanIn };
}
