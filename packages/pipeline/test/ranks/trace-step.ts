import type { LocalWorld, TraceEntry } from '@mtl/comm';
import type { RecordedSpan } from '../../src/index.js';
import timePasses, { type TimedCase } from './time-passes.js';

/** The activities of a rank in the last of several steps, and its messages in the same time. */
export interface TracedStep {
  readonly spans: readonly RecordedSpan[];
  readonly operations: readonly TraceEntry[];
}

/**
 * Traces the second of two steps: the first step includes the comparison of the ranks' steps, the second is a
 * normal one.
 */
export default function traceStep(world: LocalWorld, timedCase: TimedCase): TracedStep {
  const steps = timePasses(world, { cases: [timedCase], numSteps: 2 })[0]!;
  const spans = steps[1]!;
  const start = Math.min(...spans.map(({ startNs }) => startNs));
  const messages = world
    .takeTrace()
    .filter(({ operation }) => operation === 'send' || operation === 'receive');
  return { spans, operations: messages.filter(({ postedNs }) => postedNs >= start) };
}
