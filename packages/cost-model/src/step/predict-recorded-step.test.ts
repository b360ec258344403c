import { buildSchedule, oneStage } from '@mtl/pipeline/schedules';
import { describe, expect, it } from 'vitest';
import { loadProfile } from '../open-profile.js';
import type { CollectiveOperation, Operation } from '../operations/operation.js';
import { collectiveSeconds } from '../timing/collective-seconds.js';
import { operationsSeconds, passSeconds } from '../timing/operations-seconds.js';
import { predictRecordedStep, type RecordedEnd, type RecordedStep } from './predict-recorded-step.js';

const profile = loadProfile('h100-80gb');
const matmul: Operation = {
  kind: 'matmul',
  name: 'matmul',
  dtype: 'bf16',
  time: 'matmuls',
  batch: 1,
  rows: 4096,
  columns: 4096,
  depth: 4096,
  resultBytes: 2,
};
const reduce = (axis: 'tp' | 'dp', bytes = 1e8): CollectiveOperation => ({
  kind: 'collective',
  name: 'sum',
  collective: 'all-reduce',
  bytes,
  group: { axis, size: 8, perNode: 8 },
});
const none = { operations: [], isOverlapped: false };
const noEnd: RecordedEnd = { operations: [], reduction: none, gather: none };
const predictSeconds = (operations: readonly Operation[]): number =>
  passSeconds(operationsSeconds(operations, profile));
const predict = (step: RecordedStep) => predictRecordedStep({ step, profile, numProcesses: 8 });

describe('predictRecordedStep', () => {
  it('runs the passes of every chunk by the schedule, halves of backward included', () => {
    const schedule = buildSchedule('zb-h1', { numStages: 2, numMicroBatches: 4 });
    const passes = { F: [matmul], I: [matmul], W: [matmul], B: [matmul, matmul] };
    const step: RecordedStep = { schedule, chunks: [passes, passes], ends: [noEnd, noEnd] };
    const { seconds, breakdown, simulation } = predict(step);
    expect(simulation.ranks).toHaveLength(2);
    expect(breakdown.matmuls).toBeCloseTo(12 * predictSeconds([matmul]), 12);
    const sum = Object.values(breakdown).reduce((total, part) => total + part, 0);
    expect(sum / seconds).toBeCloseTo(1, 9);
    // the time without a bubble, plus the bubble that remains
    expect(seconds).toBeGreaterThan(12 * predictSeconds([matmul]));
  });

  it('hides what was started before other operations, and waits for the rest', () => {
    const collective = reduce('tp', 1e7);
    const hidden: Operation[] = [
      { kind: 'start', id: 1, collective },
      matmul,
      matmul,
      { kind: 'wait', id: 1 },
    ];
    const communicating = collectiveSeconds(collective, profile);
    const computing = predictSeconds([matmul, matmul]);
    expect(communicating).toBeLessThan(computing);
    const cost = profile.hardware.overlapCost.value;
    expect(predictSeconds(hidden)).toBeCloseTo(computing + cost * communicating, 12);
    const exposed: Operation[] = [
      { kind: 'start', id: 1, collective },
      { kind: 'wait', id: 1 },
      matmul,
      matmul,
    ];
    expect(predictSeconds(exposed)).toBeCloseTo(computing + communicating, 12);
  });

  it('ends with the slowest rank: reduction, gather, update', () => {
    const schedule = oneStage(1);
    const chunk = { F: [matmul], B: [matmul, matmul] };
    const operations = [reduce('dp'), reduce('dp')];
    const step = (isOverlapped: boolean): RecordedStep => ({
      schedule,
      chunks: [chunk],
      ends: [{ operations: [matmul], reduction: { operations, isOverlapped }, gather: none }],
    });
    const data = 2 * collectiveSeconds(operations[0]!, profile);
    const { breakdown, seconds } = predict(step(false));
    expect(breakdown.dataCommunication).toBeCloseTo(data, 12);
    expect(breakdown.optimizer).toBeCloseTo(predictSeconds([matmul]), 12);
    expect(seconds).toBeCloseTo(4 * predictSeconds([matmul]) + data, 12);
    // at least the last of two buckets does not overlap
    const hidden = predict(step(true)).breakdown.dataCommunication;
    expect(hidden).toBeLessThan(data);
    expect(hidden).toBeGreaterThanOrEqual(data / 2);
  });

  it('counts messages between ranks, and none between chunks of one', () => {
    const gather = reduce('tp');
    const message = { bytes: 1e9, gather, isInside: true };
    const passes = { F: [matmul], B: [matmul, matmul] };
    const chunks = [passes, passes];
    const schedule = buildSchedule('1f1b', { numStages: 2, numMicroBatches: 1 });
    const { seconds, breakdown } = predict({ schedule, chunks, ends: [noEnd, noEnd], message });
    const { linkInside } = profile.hardware;
    const sending =
      linkInside.latencySeconds.value + 1e9 / (linkInside.bytesPerSecond.value * linkInside.efficiency.value);
    const gathering = collectiveSeconds(gather, profile);
    expect(seconds).toBeCloseTo(6 * predictSeconds([matmul]) + 2 * sending + 2 * gathering, 9);
    expect(breakdown.pipelineCommunication).toBeCloseTo(gathering, 12);
  });
});
