import type { ScheduleAction } from './pipeline-schedule.js';

/**
 * Assigns chunks to ranks in turn: chunk c is on rank `c mod p`. Therefore the last rank also sends to the
 * first rank (Narayanan et al. 2021, section 2.2). With one chunk per rank, this is the usual placement of
 * stages.
 */
export function loopedPlacement(options: {
  readonly numStages: number;
  readonly numChunks: number;
}): readonly number[] {
  const { numStages, numChunks } = options;
  return Array.from({ length: numStages * numChunks }, (_, chunk) => chunk % numStages);
}

interface ForwardThenPairsOptions {
  /** The number of the rank's forward passes, which is also the number of its backward passes. */
  readonly numPasses: number;
  /**
   * The number of forward passes before the first backward pass. A value above `numPasses` means all of the
   * rank's passes.
   */
  readonly numWarmUp: number;
  readonly forward: (pass: number) => ScheduleAction;
  /**
   * Returns the actions for the backward pass with index `pass`, including the actions that directly follow
   * it.
   */
  readonly backward: (pass: number) => readonly ScheduleAction[];
}

/**
 * Returns a rank's order of actions in 1F1B and its variants: first some forward passes, then forward and
 * backward passes alternate, and the remaining backward passes follow.
 */
export function forwardThenPairs(options: ForwardThenPairsOptions): ScheduleAction[] {
  const { numPasses, forward, backward } = options;
  const numWarmUp = Math.min(numPasses, options.numWarmUp);
  const order: ScheduleAction[] = [];
  for (let step = 0; step < numPasses + numWarmUp; step++) {
    if (step < numPasses) order.push(forward(step));
    if (step >= numWarmUp) order.push(...backward(step - numWarmUp));
  }
  return order;
}
