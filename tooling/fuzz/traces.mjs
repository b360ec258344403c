import { readFileSync } from 'node:fs';

/** Returns a trace as a training run would write it, with one step of two ranks. */
export function makeTrace(schedules) {
  const schedule = schedules.buildSchedule('1f1b', { numStages: 2, numMicroBatches: 3 });
  const times = { forward: 1, backwardInput: 1, backwardWeight: 1 };
  const { ranks } = schedules.simulateSchedule({ schedule, times });
  return schedules.mergeTraces(
    ranks.map(({ passes }, rank) => {
      const spans = passes.map(({ action, start, end }) => ({
        ...action,
        startNs: start * 1e6,
        endNs: end * 1e6,
      }));
      const step = { kind: 'step', startNs: 0, endNs: Math.max(...spans.map(({ endNs }) => endNs)) };
      const operation = {
        group: 'pipeline',
        operation: rank === 0 ? 'send' : 'receive',
        peer: 1 - rank,
        sequence: 0,
        bytes: 8,
        postedNs: 1,
        startedNs: 1,
        doneNs: 2,
        waitedFromNs: 1,
        waitDoneNs: 2,
      };
      return {
        rank,
        pipeline: 0,
        stage: rank,
        clockOffsetNs: 0,
        spans: [...spans, step],
        operations: [operation],
      };
    }),
  );
}

/** Reads a trace in the same way as `mtl schedule --compare`. */
export function readTraceFile(schedules, path) {
  return schedules.readTrace(readFileSync(path, 'utf8'), { name: 'trace' }).map(({ steps }) => {
    const [measured] = steps;
    const simulated = schedules.predictStep(measured, { samples: steps });
    schedules.replayStep(measured);
    schedules.comparisonSvg({ measured, simulated });
    return schedules.formatTimeline(measured);
  });
}
