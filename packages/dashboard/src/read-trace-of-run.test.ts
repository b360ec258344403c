import { buildSchedule, mergeTraces, type RecordedSpan, simulateSchedule } from '@mtl/pipeline/schedules';
import { expect, it } from 'vitest';
import { readTraceOfRun } from './read-trace-of-run.js';

/** Milliseconds of a forward pass in each of three steps; a backward pass takes twice as long. */
const msOfSteps = [5, 1, 2];

/** Returns the trace of a training run with a pipeline of two ranks. */
function traceOfSteps(): string {
  const schedule = buildSchedule('1f1b', { numStages: 2, numMicroBatches: 4 });
  const { ranks, makespan } = simulateSchedule({ schedule });
  const stepNs = (at: number): number => at * 1e9;
  const traces = ranks.map(({ passes }, rank) => ({
    rank,
    pipeline: 0,
    stage: rank,
    clockOffsetNs: 0,
    operations: [],
    spans: msOfSteps.flatMap((ms, step): RecordedSpan[] => [
      ...passes.map(({ action, start, end }) => ({
        ...action,
        startNs: stepNs(step) + start * ms * 1e6,
        endNs: stepNs(step) + end * ms * 1e6,
      })),
      { kind: 'step', startNs: stepNs(step), endNs: stepNs(step) + makespan * ms * 1e6 },
    ]),
  }));
  return JSON.stringify(mergeTraces(traces));
}

it('compares the step of the median time with what the simulator says of the median passes', () => {
  const { answer, pictures } = readTraceOfRun(traceOfSteps());
  const [{ measured, simulated, ...rest } = expect.fail(), ...others] = answer.pipelines;
  expect(rest).toEqual({ pipeline: 0, numSteps: 3 });
  expect(others).toEqual([]);
  // a rank computes 4 micro-batches (2 ms forward and 4 ms backward each) and waits for the time of one
  // micro-batch
  const expected = { makespan: expect.closeTo((4 + 1) * 6, 6), bubbleFraction: expect.closeTo(1 / 4, 6) };
  expect(measured).toEqual(expected);
  expect(simulated).toEqual(expected);
  expect(pictures).toEqual([expect.stringContaining('simulated')]);
});

it('refuses what is no trace', () => {
  expect(() => readTraceOfRun('')).toThrow(expect.objectContaining({ code: 'MTL_TRACE' }));
});
