import type { Ranks } from '../ranks.js';

/** What a step has computed. */
export interface ComputedStep {
  /** The same on all ranks. */
  readonly loss: number;
  readonly gradientNorm: number;
  /** Of this rank alone, before anything is reduced: its losses, and the sum of squares of its gradients. */
  readonly own: readonly number[];
}

export interface RerunRequest<Step extends ComputedStep> {
  readonly iteration: number;
  readonly first: Step;
  /** Whether the step is out of bounds or not finite. */
  readonly isSuspicious: boolean;
  /** Computes the step again, in place of what was computed before. All ranks do. */
  readonly again: () => Promise<Step>;
  readonly ranks: Pick<Ranks, 'ofEveryRank'>;
}
