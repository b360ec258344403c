import { describe, expect, it } from 'vitest';
import { ofEveryChunk } from '../../test/support/of-every-chunk.js';
import { buildSchedule, parseScheduleCsv, type Simulation, simulateSchedule } from '../schedules.js';

/** Formats the start and end of a rank's passes, as in `F0 0-1, B0 3-5`. */
function formatClock({ ranks }: Simulation, rank: number): string {
  return ranks[rank]!.passes.map(
    ({ action, start, end }) => `${action.kind}${action.microBatch} ${start}-${end}`,
  ).join(', ');
}

describe('simulateSchedule', () => {
  const schedule = buildSchedule('1f1b', { numStages: 2, numMicroBatches: 2 });

  it('starts every action when its rank is free and its input is there', () => {
    const simulation = simulateSchedule({ schedule });
    expect(formatClock(simulation, 0)).toBe('F0 0-1, F1 1-2, B0 4-6, B1 7-9');
    expect(formatClock(simulation, 1)).toBe('F0 1-2, B0 2-4, F1 4-5, B1 5-7');
    expect(simulation).toMatchObject({ makespan: 9, stepTime: 9, bubbleFraction: 0.5 });
    expect(simulation.ranks.map(({ busy, idle }) => [busy, idle])).toEqual([
      [6, 3],
      [6, 3],
    ]);
  });

  it('communication delays what crosses ranks, and nothing else', () => {
    const simulation = simulateSchedule({ schedule, times: { communication: 0.5 } });
    expect(formatClock(simulation, 0)).toBe('F0 0-1, F1 1-2, B0 5-7, B1 8-10');
    expect(formatClock(simulation, 1)).toBe('F0 1.5-2.5, B0 2.5-4.5, F1 4.5-5.5, B1 5.5-7.5');
    // the turn of the V is within a rank, so nothing is sent from chunk 1 to chunk 2
    const v = buildSchedule('zb-v', { numStages: 2, numMicroBatches: 1 });
    const turning = simulateSchedule({
      schedule: v,
      times: { ...ofEveryChunk(v, { forward: 1, backwardInput: 1, backwardWeight: 1 }), communication: 10 },
    });
    expect(formatClock(turning, 1)).toBe('F0 11-12, F0 12-13, I0 35-36, W0 36-37, I0 37-38, W0 38-39');
  });

  it('a chunk has times of its own: the head computes its logits in backward', () => {
    const times = { forward: 1, backwardInput: [1, 4], backwardWeight: [1, 3] };
    const simulation = simulateSchedule({ schedule, times: { ...times, backward: [2, 6] } });
    expect(formatClock(simulation, 1)).toBe('F0 1-2, B0 2-8, F1 8-9, B1 9-15');
    // the last rank determines the speed: its two micro-batches, plus the time until the first micro-batch
    // reaches this rank and the time of the last micro-batch on its way back
    expect(simulation.makespan).toBe(1 + 2 * 7 + 2);
    // Idle time divided by busy time, for both ranks: 2 * 17 - (6 + 14) divided by 6 + 14.
    expect(simulation.bubbleFraction).toBeCloseTo(14 / 20, 12);
    const split = simulateSchedule({
      schedule: buildSchedule('zb-h1', { numStages: 2, numMicroBatches: 2 }),
      times: { ...times, backward: [2, 6] },
    });
    // If backward is split, both halves compute the logits, and take 4 and 3 units of time instead of 6
    // together.
    expect(formatClock(split, 1)).toBe('F0 1-2, I0 2-6, F1 6-7, I1 7-11, W0 11-14, W1 14-17');
  });

  it('the optimizer waits for all ranks, or for its own alone', () => {
    const size = { numStages: 3, numMicroBatches: 6 };
    const options = { schedule: buildSchedule('zb-h2', size), times: { optimizer: 2 } };
    const bound = simulateSchedule(options);
    expect(bound.ranks.map(({ optimizerStart }) => optimizerStart)).toEqual([20, 20, 20]);
    expect(bound).toMatchObject({ makespan: 20, stepTime: 22, hasBarrier: true });
    expect(bound.bubbleFraction).toBe(2 / 20);
    const free = simulateSchedule({ ...options, barrier: false });
    // each rank ends as much later as it started later, so its next step can start with the same delay
    expect(free.ranks.map(({ passes, optimizerStart }) => [passes[0]!.start, optimizerStart])).toEqual([
      [0, 18],
      [1, 19],
      [2, 20],
    ]);
    expect(free).toMatchObject({ makespan: 20, stepTime: 20, bubbleFraction: 0 });
  });

  it('counts activations in two classes, and by size', () => {
    const options = {
      schedule: buildSchedule('zb-h1', { numStages: 2, numMicroBatches: 4 }),
      activations: { untilInput: [10, 100], untilWeight: [4, 60] },
    };
    expect(simulateSchedule(options).ranks.map(({ peak }) => peak)).toEqual([
      { numUntilInput: 2, numUntilWeight: 1, numAlive: 2, size: 20 },
      { numUntilInput: 1, numUntilWeight: 2, numAlive: 2, size: 160 },
    ]);
    const whole = simulateSchedule({ ...options, schedule }).ranks.map(({ peak }) => peak.size);
    expect(whole).toEqual([20, 100]);
  });

  it.each([
    [{ times: { forward: -1 } }, 'forward cannot be -1'],
    [{ times: { communication: Number.NaN } }, 'communication cannot be NaN'],
    [{ times: { backward: [1, 2, 3] } }, 'backward has 3 values for 2 chunks'],
    [{ activations: { untilWeight: [1, Number.POSITIVE_INFINITY] } }, 'untilWeight cannot be Infinity'],
  ])('refuses %o', (options, message) => {
    expect(() => simulateSchedule({ schedule, ...options })).toThrow(
      expect.objectContaining({ code: 'MTL_SCHEDULE_TIMES', message }),
    );
  });

  it('refuses a schedule that cannot run', () => {
    const broken = { ...schedule, numMicroBatches: 3 };
    expect(() => simulateSchedule({ schedule: broken })).toThrow(
      expect.objectContaining({ code: 'MTL_SCHEDULE_INVALID', message: expect.stringContaining('0F2') }),
    );
  });

  it('runs a schedule from a file', () => {
    const own = parseScheduleCsv('0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n', { name: 'own.csv' });
    expect(simulateSchedule({ schedule: own }).makespan).toBe(9);
  });
});
