import { describe, expect, it } from 'vitest';
import { comparisonTable, computeErrors, isWithinBars, measuredStep } from './compare-steps.mjs';
import { trainingRuns } from './training-runs.mjs';

const steps = (...milliseconds) => milliseconds.map((ms) => ({ step_ms: ms, peak_bytes: 2 ** 20 }));
const row = (seconds, peakBytes = 2 ** 20) => ({
  name: 'run',
  predicted: { seconds, peakBytes },
  measured: measuredStep(steps(900, 900, 900, 900, 98, 99, 100, 101, 102)),
});

describe('measuredStep', () => {
  it('is the median of the steady steps, with half the distance of the quartiles', () => {
    const { seconds, spread, peakBytes } = row(1).measured;
    expect(seconds).toBeCloseTo(0.1, 12);
    expect(spread).toBeCloseTo(0.01, 12);
    expect(peakBytes).toBe(2 ** 20);
  });
});

describe('computeErrors', () => {
  it('are parts of what was measured', () => {
    const { predicted, measured } = row(0.09, 1.01 * 2 ** 20);
    const { time, memory } = computeErrors(predicted, measured);
    expect(time).toBeCloseTo(-0.1, 12);
    expect(memory).toBeCloseTo(0.01, 12);
  });
});

describe('isWithinBars', () => {
  it.each([
    [[row(0.109), row(0.092), row(0.119)], true],
    [[row(0.111), row(0.111), row(0.1)], false],
    [[row(0.1), row(0.1), row(0.121)], false],
    [[row(0.1), row(0.1), row(0.1, 1.02 * 2 ** 20)], false],
  ])('of %# is %s', (rows, expected) => {
    expect(isWithinBars(rows)).toBe(expected);
  });
});

describe('comparisonTable', () => {
  it('has a line for each run, and the errors of all', () => {
    const table = comparisonTable([row(0.11), row(0.095)]);
    expect(table).toContain('| run | 110.0 | 100.0 | 10.0 % | 1.0 % | 1.0 | 1.0 | 0.00 % |');
    expect(table).toContain('step time: median error 7.5 %, worst 10.0 %');
  });
});

describe('trainingRuns', () => {
  it('are one process, tp 2, dp 2 and every schedule of pp 2, of GPT and BERT, in two sizes', () => {
    expect(new Set(trainingRuns.map(({ name }) => name)).size).toBe(trainingRuns.length);
    for (const text of [
      'gpt small',
      'gpt medium',
      'bert small',
      'bert medium',
      'one process',
      'tp 2',
      'dp 2',
    ]) {
      expect(trainingRuns.some(({ name }) => name.includes(text))).toBe(true);
    }
    const schedules = ['gpipe', '1f1b', 'interleaved', 'breadth-first', 'zb-h1', 'zb-h2', 'zb-v'];
    for (const schedule of schedules) {
      expect(trainingRuns.some(({ flags }) => flags.includes(schedule))).toBe(true);
    }
  });
});
