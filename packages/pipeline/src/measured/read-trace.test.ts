import { describe, expect, it } from 'vitest';
import {
  buildSchedule,
  type ChromeTrace,
  comparisonSvg,
  formatTimeline,
  mergeTraces,
  predictStep,
  type RecordedSpan,
  readTrace,
  replayStep,
  simulateSchedule,
} from '../schedules.js';

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/**
 * Makes the trace of a step with two ranks, as a training run would write it. `unit` is the duration of a
 * pass in nanoseconds.
 */
function makeTrace(unit = 1e6): ChromeTrace {
  const { ranks } = simulateSchedule({
    schedule: buildSchedule('1f1b', { numStages: 2, numMicroBatches: 3 }),
  });
  return mergeTraces(
    ranks.map(({ passes }, rank) => {
      const spans = passes.map(
        ({ action, start, end }): RecordedSpan => ({ ...action, startNs: start * unit, endNs: end * unit }),
      );
      const step: RecordedSpan = { kind: 'step', startNs: 0, endNs: 100 * unit };
      return { rank, pipeline: 0, stage: rank, clockOffsetNs: 0, spans: [...spans, step], operations: [] };
    }),
  );
}

const read = (trace: unknown) => readTrace(JSON.stringify(trace), { name: 'trace.json' });

describe('readTrace', () => {
  it('reads what mergeTraces wrote', () => {
    const [pipeline] = read(makeTrace());
    expect(pipeline!.steps).toHaveLength(1);
    expect(pipeline!.steps[0]!.ranks).toHaveLength(2);
  });

  const event = (change: object) => (trace: Mutable<ChromeTrace>) => {
    const index = trace.traceEvents.findIndex(({ cat }) => cat === 'F');
    trace.traceEvents = trace.traceEvents.with(index, { ...trace.traceEvents[index]!, ...change });
  };
  const ranks = (value: unknown) => (trace: Mutable<ChromeTrace>) => {
    trace.otherData = { ...trace.otherData, ranks: value };
  };
  const rank = { rank: 0, pipeline: 0, stage: 0 };
  const changes: Record<string, (trace: Mutable<ChromeTrace>) => void> = {
    'an event of null': (trace) => {
      trace.traceEvents = [null, ...trace.traceEvents.slice(3)] as unknown as ChromeTrace['traceEvents'];
      trace.otherData = { ...trace.otherData, ranks: [rank, { ...rank, rank: 7 }] };
    },
    'args of null': event({ args: null }),
    'no args': event({ args: undefined }),
    'a time of null': event({ ts: null }),
    'a negative length': event({ dur: -1 }),
    'a chunk that is a text': event({ args: { chunk: 'x', microBatch: 0 } }),
    'a micro-batch beyond all passes': event({ args: { chunk: 0, microBatch: 2 ** 52 } }),
    'no category': event({ cat: undefined }),
    'ranks of null': ranks([null]),
    'no ranks': ranks([]),
    'a rank twice': ranks([rank, rank]),
    'a stage that is a text': ranks([{ ...rank, stage: 'x' }]),
    'no other data': (trace) => {
      trace.otherData = null as unknown as ChromeTrace['otherData'];
    },
  };

  it.each(Object.keys(changes))('refuses %s with a coded error', (name) => {
    const trace = structuredClone(makeTrace()) as Mutable<ChromeTrace>;
    changes[name]!(trace);
    expect(() => read(trace)).toThrow(expect.objectContaining({ code: 'MTL_TRACE' }));
  });

  it.each(['null', '[]', '0', '{"traceEvents": []}', 'x'])('refuses the text %s', (text) => {
    const refused = expect.objectContaining({ code: 'MTL_TRACE' });
    expect(() => readTrace(text, { name: 'trace.json' })).toThrow(refused);
  });

  it('reads a trace whose clock stood still, and it can be shown', () => {
    const [step] = read(makeTrace(0))[0]!.steps;
    expect(step!.makespan).toBe(0);
    expect(formatTimeline(step!)).toEqual(expect.any(String));
    expect(replayStep(step!).makespan).toBe(0);
    expect(comparisonSvg({ measured: step!, simulated: predictStep(step!) })).not.toMatch(/NaN|Infinity/);
  });
});
