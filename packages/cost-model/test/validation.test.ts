import { describe, expect, it } from 'vitest';
import { ListedEstimates, loadProfile, predictStepTime } from '../src/index.js';
import { computeCost, fits } from './support/fits.js';
import { type PredictedRow, stepOfRow, summarizeErrors } from './support/measured-row.js';
import { paperOrders } from './support/paper-orders.js';
import { paperRows } from './support/paper-rows.js';

const rows: readonly PredictedRow[] = paperRows.map((row) => ({
  ...row,
  predicted: predictStepTime(stepOfRow(row)).seconds,
}));
const heldOut = (set: string): PredictedRow[] => rows.filter((row) => row.set === set && !row.fitted);

describe('measured steps that no constant is fitted on', () => {
  it.each([
    ['Korthikanti table 5', 4, 0.05, 0.1],
    ['Narayanan table 1', 10, 0.07, 0.12],
    ['Narayanan table 2', 6, 0.07, 0.12],
    ['Narayanan figures', 20, 0.12, 0.12],
    ['Narayanan ZeRO-3', 3, 0.05, 0.08],
    ['torchtitan FSDP H100', 4, 0.04, 0.08],
    ['Headline runs', 2, 0.1, 0.1],
    // The largest error is for groups of 16 data-parallel ranks, with several ranks of a group on a node, in
    // a pipeline.
    ['Megatron-DeepSpeed', 16, 0.1, 0.25],
  ] as const)('%s: %i rows within %d in the mean, %d at most', (set, count, mean, most) => {
    const members = heldOut(set);
    expect(members).toHaveLength(count);
    const errors = summarizeErrors(members);
    expect(errors.mean).toBeLessThanOrEqual(mean);
    expect(errors.most).toBeLessThanOrEqual(most);
  });

  it.each([
    ['Narayanan ZeRO-3', ['175B on 768: 63.7', '530B on 640: 237', '530B on 2240: 187']],
    [
      'torchtitan FSDP H100',
      [
        '8B on 8, compiled: 2.55',
        '8B on 128: 2.88',
        '70B on 256, t 8, asynchronous: 25.5',
        '8B on 64, t 8: 2.61',
      ],
    ],
  ])('%s: seconds of sharded parameters, as printed in docs/benchmarks', (set, predicted) => {
    expect(heldOut(set).map((row) => `${row.name}: ${row.predicted.toPrecision(3)}`)).toEqual(predicted);
  });

  it('orders the points of every figure that differ by 5 % or more as they were measured', () => {
    const figures = heldOut('Narayanan figures');
    let count = 0;
    for (const one of figures) {
      for (const other of figures) {
        if (one.name.split(':')[0] !== other.name.split(':')[0]) continue;
        // TFLOP/s of a GPU, so that batches of different sizes compare.
        if (one.teraflops! < 1.05 * other.teraflops!) continue;
        count++;
        const ratio = (one.seconds / one.predicted) * (other.predicted / other.seconds);
        expect((one.teraflops! / other.teraflops!) * ratio, `${one.name} over ${other.name}`).toBeGreaterThan(
          1,
        );
      }
    }
    expect(count).toBeGreaterThan(40);
  });

  it('are estimated without a clock within 1 %', () => {
    const estimates = new ListedEstimates();
    for (const row of rows) {
      const { seconds } = estimates.estimate(stepOfRow(row));
      expect(Math.abs(seconds / row.predicted - 1), `${row.set}: ${row.name}`).toBeLessThan(0.01);
    }
  });

  it.each(paperOrders())('figure $figure, $statement', ({ predicted, holds }) => {
    expect(holds, JSON.stringify(predicted)).toBe(true);
  });

  it.each([
    ['Shoeybi model', [0.05, 0.05, 0.05]],
    // 83 % on 128 GPUs is not explained: see docs/benchmarks/planner-against-papers.md.
    ['Shoeybi model and data', [0.05, 0.15, 0.05, 0.05]],
  ] as const)('%s: efficiencies of weak scaling in 2019 within %j', (set, bars) => {
    for (const [i, row] of heldOut(set).entries()) {
      const measured = row.teraflops! / 39;
      expect(Math.abs(measured * (row.seconds / row.predicted) - measured), row.name).toBeLessThan(bars[i]!);
    }
  });
});

describe.each(fits)('the fit of $file', (fit) => {
  const profile = loadProfile(fit.rows[0]!.profile);
  const part: unknown = fit.file.startsWith('hardware') ? profile.hardware : profile.software;
  const values = fit.start.map(
    ([keys]) =>
      (keys.reduce((object, key) => (object as Record<string, unknown>)[key], part) as { value: number })
        .value,
  );

  it('has at most six constants of a GPU, two of a program', () => {
    expect(fit.start.length).toBeLessThanOrEqual(fit.file.startsWith('hardware') ? 6 : 2);
  });

  it('wrote its result to the profile: other values have larger errors', () => {
    const cost = computeCost(fit, values);
    for (const [i, [, , most = Number.POSITIVE_INFINITY]] of fit.start.entries()) {
      for (const factor of [0.97, 1.03]) {
        const changed = values.map((value, k) => (k === i ? value * factor : value));
        if (changed[i]! <= most)
          expect(computeCost(fit, changed), `constant ${i} times ${factor}`).toBeGreaterThan(cost);
      }
    }
  });
});
