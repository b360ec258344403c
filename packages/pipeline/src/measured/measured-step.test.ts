import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  buildSchedule,
  predictStep,
  type RecordedSpan,
  replayStep,
  type ScheduleName,
  type Simulation,
  simulateSchedule,
} from '../schedules.js';
import { measureStep } from './measured-step.js';

/** Returns the spans that the ranks of a simulated step would record, with 1 ms per unit of time. */
function makeSpans({ ranks }: Simulation): RecordedSpan[][] {
  const origin = 123e9;
  return ranks.map(({ passes }) => {
    const spans = passes.map(({ action, start, end }): RecordedSpan => {
      const convertTime = (time: number): number => origin + 1e6 * time;
      return { ...action, startNs: convertTime(start), endNs: convertTime(end) };
    });
    // spans that are not passes, and the order of recording, do not matter
    const step: RecordedSpan = { kind: 'step', startNs: origin - 5e6, endNs: origin + 1e12 };
    return [step, ...spans.toReversed()];
  });
}

const anySimulation = fc
  .record({
    name: fc.constantFrom<ScheduleName>('gpipe', '1f1b', 'interleaved', 'breadth-first', 'zb-h1', 'zb-v'),
    numStages: fc.integer({ min: 2, max: 4 }),
    rounds: fc.integer({ min: 1, max: 3 }),
    times: fc.record({
      forward: fc.integer({ min: 1, max: 5 }),
      backwardInput: fc.integer({ min: 1, max: 5 }),
      backwardWeight: fc.integer({ min: 1, max: 5 }),
    }),
  })
  .map(({ name, numStages, rounds, times }) => {
    const schedule = buildSchedule(name, { numStages, numMicroBatches: numStages * rounds });
    return simulateSchedule({ schedule, times });
  });

describe('a measured step', () => {
  it('is the simulation that it follows, and so are its replay and its prediction', () => {
    fc.assert(
      fc.property(anySimulation, (simulation) => {
        const { name } = simulation.schedule;
        const measured = measureStep(makeSpans(simulation), { name });
        expect(measured).toEqual({ ...simulation, optimizerTime: 0 });
        expect(replayStep(measured)).toEqual(measured);
        expect(predictStep(measured)).toEqual(measured);
      }),
      { numRuns: 60 },
    );
  });

  it('has more idle time than its replay when messages take long, and its replay more than the prediction when passes differ', () => {
    const schedule = buildSchedule('1f1b', { numStages: 2, numMicroBatches: 4 });
    const slow = simulateSchedule({ schedule, times: { communication: 0.5 } });
    const measured = measureStep(makeSpans(slow), { name: '1f1b' });
    const quick = simulateSchedule({ schedule });
    expect(measured.makespan).toBe(slow.makespan);
    expect(replayStep(measured)).toEqual(quick);
    expect(predictStep(measured, { communication: 0.5 })).toEqual(measured);
    // one forward pass of the last rank takes three times as long, which does not change the medians
    const [first, last] = makeSpans(quick);
    const uneven = [
      first!,
      last!.map((span) => {
        if (span.kind === 'step') return span;
        const isLong = span.kind === 'F' && span.microBatch === 1;
        const isAfter = span.kind === 'B' ? span.microBatch! >= 1 : span.microBatch! > 1;
        const [later, longer] = [isAfter ? 2e6 : 0, isLong ? 2e6 : 0];
        return { ...span, startNs: span.startNs + later, endNs: span.endNs + later + longer };
      }),
    ];
    const step = measureStep(uneven, { name: '1f1b' });
    expect(predictStep(step).makespan).toBe(quick.makespan);
    expect(replayStep(step).makespan).toBe(quick.makespan + 2);
  });

  it('is refused when passes are missing', () => {
    const spans = makeSpans(
      simulateSchedule({ schedule: buildSchedule('gpipe', { numStages: 2, numMicroBatches: 2 }) }),
    );
    const torn = spans.map((rank) => rank.filter(({ kind, microBatch }) => kind !== 'B' || microBatch !== 1));
    for (const ranks of [torn, [spans[1]!], [[], []]]) {
      expect(() => measureStep(ranks, { name: 'x' })).toThrow(expect.objectContaining({ code: 'MTL_TRACE' }));
    }
  });
});
