import type { ScheduleAction } from './pipeline-schedule.js';

interface ForwardThenPairsOptions {
  /** Forward passes of the rank; backward has as many. */
  readonly numPasses: number;
  /** Forward passes before the first pair; more than there are means all. */
  readonly numWarmUp: number;
  readonly forward: (pass: number) => ScheduleAction;
  /** The backward of a pass, with the other actions that come right after it. */
  readonly backward: (pass: number) => readonly ScheduleAction[];
}

/**
 * Returns the order of the 1F1B family on one rank: forward passes, then one forward and one backward in
 * turn, then backward.
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
