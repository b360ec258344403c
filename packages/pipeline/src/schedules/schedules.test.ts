import type { MtlError } from '@mtl/errors';
import { describe, expect, it } from 'vitest';
import {
  buildSchedule,
  type PipelineSchedule,
  type ScheduleSize,
  scheduleNames,
  simulateSchedule,
} from '../schedules.js';
import { chunkRounds } from './pipeline-schedule.js';

/**
 * Formats a rank's order of actions as the papers do: F0a is the forward pass of micro-batch 0 on the rank's
 * first chunk.
 */
function formatOrder(schedule: PipelineSchedule, rank: number): string {
  const rounds = chunkRounds(schedule);
  const isLooped = schedule.placement.length > schedule.actions.length;
  return schedule.actions[rank]!.map(
    ({ kind, chunk, microBatch }) => `${kind}${microBatch}${isLooped ? 'abcd'[rounds[chunk]!] : ''}`,
  ).join(' ');
}

describe('golden orders', () => {
  // p = 4 and m = 8, as in figure 4 of Narayanan et al. 2021; the order follows Megatron-LM's rule
  it('of 1F1B', () => {
    const schedule = buildSchedule('1f1b', { numStages: 4, numMicroBatches: 8 });
    expect(formatOrder(schedule, 0)).toBe('F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7');
    expect(formatOrder(schedule, 3)).toBe('F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7');
  });

  it('of interleaved 1F1B', () => {
    const schedule = buildSchedule('interleaved', { numStages: 4, numMicroBatches: 8, numChunks: 2 });
    expect(schedule.actions.map((_, rank) => formatOrder(schedule, rank))).toEqual([
      'F0a F1a F2a F3a F0b F1b F2b F3b F4a F5a F6a B0b F7a B1b F4b B2b F5b B3b F6b B0a F7b B1a B2a B3a B4b B5b B6b B7b B4a B5a B6a B7a',
      'F0a F1a F2a F3a F0b F1b F2b F3b F4a B0b F5a B1b F6a B2b F7a B3b F4b B0a F5b B1a F6b B2a F7b B3a B4b B5b B6b B7b B4a B5a B6a B7a',
      'F0a F1a F2a F3a F0b F1b F2b B0b F3b B1b F4a B2b F5a B3b F6a B0a F7a B1a F4b B2a F5b B3a F6b B4b F7b B5b B6b B7b B4a B5a B6a B7a',
      'F0a F1a F2a F3a F0b B0b F1b B1b F2b B2b F3b B3b F4a B0a F5a B1a F6a B2a F7a B3a F4b B4b F5b B5b F6b B6b F7b B7b B4a B5a B6a B7a',
    ]);
  });

  it('of interleaved 1F1B with groups and a short last one: the table p = 2, N = 3, m = 5, v = 2', () => {
    const schedule = buildSchedule('interleaved', {
      numStages: 2,
      numMicroBatches: 5,
      numChunks: 2,
      microBatchGroupSize: 3,
    });
    const forwards = schedule.actions[0]!.filter(({ kind }) => kind === 'F');
    expect(forwards.map(({ microBatch }) => microBatch).join(' ')).toBe('0 1 2 0 1 2 3 4 3 4');
    expect(forwards.map(({ chunk }) => chunk / 2).join(' ')).toBe('0 0 0 1 1 1 0 0 1 1');
  });

  it('of GPipe and breadth-first', () => {
    const two = { numStages: 2, numMicroBatches: 2 };
    expect(formatOrder(buildSchedule('gpipe', two), 1)).toBe('F0 F1 B0 B1');
    expect(formatOrder(buildSchedule('breadth-first', { ...two, numChunks: 2 }), 0)).toBe(
      'F0a F1a F0b F1b B0b B1b B0a B1a',
    );
  });

  it('of the zero-bubble schedules, first and last rank', () => {
    const size = { numStages: 3, numMicroBatches: 5 };
    const h1 = buildSchedule('zb-h1', size);
    expect(formatOrder(h1, 0)).toBe('F0 F1 F2 I0 W0 F3 I1 W1 F4 I2 W2 I3 W3 I4 W4');
    expect(formatOrder(h1, 2)).toBe('F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 F4 I4 W2 W3 W4');
    const h2 = buildSchedule('zb-h2', size);
    expect(formatOrder(h2, 0)).toBe('F0 F1 F2 F3 F4 I0 W0 I1 W1 I2 W2 I3 W3 I4 W4');
    expect(formatOrder(h2, 2)).toBe('F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 W0 W1 W2 W3 W4');
    const zbv = buildSchedule('zb-v', { numStages: 2, numMicroBatches: 3 });
    expect(zbv.placement).toEqual([0, 1, 1, 0]);
    expect(formatOrder(zbv, 0)).toBe(
      'F0a F1a F2a F0b I0b W0b F1b I1b W1b I0a W0a F2b I2b W2b I1a W1a I2a W2a',
    );
  });
});

describe('golden makespans', () => {
  /**
   * Returns the makespan if forward of a whole stage takes 1 and its backward takes 2. As in `mtl schedule`,
   * a chunk takes 1/v of the stage's time.
   */
  const makespan = (name: string, size: ScheduleSize): number => {
    const { makespan: sum } = simulateSchedule({ schedule: buildSchedule(name, size) });
    return Number(sum.toFixed(9)); // thirds are rounded, some hundred thirds are added
  };

  it.each([
    { numStages: 4, numMicroBatches: 8, plain: 33, chunked: [28.5, 27, 26.25] },
    { numStages: 8, numMicroBatches: 32, plain: 117, chunked: [106.5, 103, 101.25] },
  ])('p = $numStages, m = $numMicroBatches', ({ numStages, numMicroBatches, plain, chunked }) => {
    const size = { numStages, numMicroBatches };
    expect(makespan('gpipe', size)).toBe(plain);
    expect(makespan('1f1b', size)).toBe(plain);
    for (const name of ['interleaved', 'breadth-first']) {
      const schedule = buildSchedule(name, { ...size, numChunks: 2 });
      // a single number and the corresponding list with a time for each chunk give the same result
      expect(simulateSchedule({ schedule, times: { forward: 1, backward: 2 } }).makespan).toBe(chunked[0]);
      const halves = {
        forward: schedule.placement.map(() => 0.5),
        backward: schedule.placement.map(() => 1),
      };
      expect(simulateSchedule({ schedule, times: halves }).makespan).toBe(chunked[0]);
      const found = [2, 3, 4].map((numChunks) => makespan(name, { ...size, numChunks }));
      expect(found).toEqual(chunked);
    }
  });
});

describe('sizes that cannot be', () => {
  const refusal = (name: string, size: ScheduleSize): MtlError => {
    try {
      buildSchedule(name, size);
    } catch (error) {
      return error as MtlError;
    }
    throw new Error(`${name} took ${JSON.stringify(size)}`);
  };
  const good = { numStages: 4, numMicroBatches: 8 };

  it.each(scheduleNames)('%s refuses fewer than two stages and a step without micro-batches', (name) => {
    for (const numStages of [1, 0, -3, 1.5, Number.NaN]) {
      const error = refusal(name, { ...good, numStages });
      expect(error).toMatchObject({ code: 'MTL_SCHEDULE_STAGES', details: { nearest: [2] }, exitCode: 2 });
    }
    for (const numMicroBatches of [0, -1, Number.NaN]) {
      const error = refusal(name, { ...good, numMicroBatches });
      expect(error).toMatchObject({ code: 'MTL_SCHEDULE_MICRO_BATCHES', details: { nearest: [1] } });
    }
  });

  it.each([
    ['gpipe', 2, 1],
    ['1f1b', 2, 1],
    ['zb-h1', 2, 1],
    ['zb-h2', 0, 1],
    ['interleaved', 1, 2],
    ['breadth-first', 0, 1],
    ['zb-v', 1, 2],
    ['zb-v', 3, 2],
  ])('%s refuses %i chunks and names %i', (name, numChunks, nearest) => {
    const error = refusal(name, { ...good, numChunks });
    expect(error).toMatchObject({ code: 'MTL_SCHEDULE_CHUNKS', details: { nearest: [nearest] } });
    expect(error.remedy).toBeDefined();
  });

  it.each([
    { numMicroBatches: 9, nearest: [8, 12], groups: [5] },
    { numMicroBatches: 3, nearest: [4], groups: [] },
    { numMicroBatches: 6, nearest: [4, 8], groups: [6] },
    { numMicroBatches: 8, microBatchGroupSize: 5, nearest: [5, 9], groups: [4, 8] },
    { numMicroBatches: 8, microBatchGroupSize: 12, nearest: [12], groups: [8] },
  ])('interleaved on 4 stages refuses $numMicroBatches micro-batches, N = $microBatchGroupSize', (given) => {
    const { nearest, groups, ...size } = given;
    const interleaved = { numStages: 4, numChunks: 2, ...size };
    const error = refusal('interleaved', interleaved);
    expect(error).toMatchObject({
      code: 'MTL_SCHEDULE_MICRO_BATCHES',
      details: { nearest, nearestGroupSizes: groups },
    });
    // The advice works.
    for (const numMicroBatches of nearest) buildSchedule('interleaved', { ...interleaved, numMicroBatches });
    for (const microBatchGroupSize of groups)
      buildSchedule('interleaved', { ...interleaved, microBatchGroupSize });
  });

  it('groups smaller than the pipeline, and groups where there are none', () => {
    expect(refusal('interleaved', { ...good, numChunks: 2, microBatchGroupSize: 3 })).toMatchObject({
      code: 'MTL_SCHEDULE_GROUP_SIZE',
      details: { nearest: [4] },
    });
    expect(refusal('1f1b', { ...good, microBatchGroupSize: 4 }).code).toBe('MTL_SCHEDULE_GROUP_SIZE');
  });

  it('a name misspelt, or one that every object has', () => {
    expect(refusal('interleave', good)).toMatchObject({
      code: 'MTL_SCHEDULE_NAME',
      remedy: 'did you mean interleaved?',
    });
    expect(refusal('constructor', good).code).toBe('MTL_SCHEDULE_NAME');
  });
});
