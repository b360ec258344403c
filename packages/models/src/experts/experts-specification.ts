import type { ExpertActivation } from '@mtl/kernels';
import type { FeedForwardSpecification } from '../blocks/activated-feed-forward.js';
import type { LoadBalancingType, RouterScoreFunction, TokenDropPolicy } from './expert-variants.js';

/** What is between the two layers of an expert. */
export interface ExpertActivationSpecification {
  readonly kind: ExpertActivation;
  /** Gates are at most this, values between it and its negative. Absent: any. */
  readonly clamp?: number | undefined;
  /** Added to the values of gated experts. Absent: 0. */
  readonly linearOffset?: number | undefined;
}

/** Whether the first layer of an expert has gates and values. */
export const isGated = ({ kind }: ExpertActivationSpecification): boolean =>
  kind === 'swiglu' || kind === 'clampedQuickGeglu';

/** How a router chooses the experts of a token. */
export interface RouterSpecification {
  readonly scoreFunction: RouterScoreFunction;
  readonly preSoftmax: boolean;
  readonly scalingFactor: number;
  readonly bias: boolean;
  /** Groups of experts, and of how many of them a token uses experts. Absent: any experts. */
  readonly groups?: { readonly number: number; readonly topK: number } | undefined;
  /** A bias of each expert that takes part in the choice, and how much a step moves it. Absent: none. */
  readonly expertBias?: { readonly updateRate: number } | undefined;
}

/** A loss that keeps experts from being chosen unevenly, with its weight. */
export interface BalancingLoss {
  readonly type: Exclude<LoadBalancingType, 'none'>;
  readonly coefficient: number;
}

/** The fields of the kind `mixture-of-experts`; `ffnHiddenSize` is F, the width of an expert. */
export interface ExpertsSpecification extends FeedForwardSpecification {
  readonly kind: 'mixture-of-experts';
  /** E */
  readonly numExperts: number;
  /** k */
  readonly topK: number;
  readonly activation: ExpertActivationSpecification;
  readonly router: RouterSpecification;
  readonly balancingLosses: readonly BalancingLoss[];
  /** The weight of the mean squared log-sum-exp of the logits. Absent: no such loss. */
  readonly zLossCoefficient?: number | undefined;
  /** Experts that every token uses, of this width together. Absent: there are none. */
  readonly shared?: { readonly ffnHiddenSize: number; readonly gate: boolean } | undefined;
  /** Absent: nothing is dropped. */
  readonly capacity?: { readonly factor: number; readonly policy: TokenDropPolicy } | undefined;
}
