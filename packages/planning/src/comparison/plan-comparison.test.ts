import { configure, type RunOptions } from '@mtl/configuration';
import type { StepMetrics } from '@mtl/trainer';
import { describe, expect, it } from 'vitest';
import type { RunPlan } from '../plan/plan-run.js';
import { comparisonText, PlanComparison, planToCompare } from './plan-comparison.js';

const rows = [
  { name: 'matmuls', measured: 0.12, planned: 0.1 },
  { name: 'attention', measured: 0.02, planned: 0.021 },
  { name: 'other kernels and host', measured: 0.05, planned: 0.03 },
  { name: 'communication', measured: 0.0311, planned: 0.03 },
];

describe('comparisonText', () => {
  it('names what is slower, the largest difference first, and nothing below 2 % of the step', () => {
    const text = comparisonText({ numSteps: 10, rows, measuredBytes: 2 ** 21, plannedBytes: 2 ** 20 });
    expect(text).toMatch(/^compared with the plan, medians of 10 steps:$/m);
    expect(text).toMatch(/^ {2}step +221\.1 ms +planned +181\.0 ms {2}\+22\.2 %$/m);
    expect(text).toMatch(/^ {4}attention +20\.0 ms +planned +21\.0 ms {2}-4\.8 %$/m);
    expect(text).toMatch(/^ {2}memory: at most 2\.0 MiB, planned 1\.0 MiB$/m);
    expect(text).toMatch(/^ {2}slower than planned: (matmuls|other kernels and host) \(\+20\.0 ms\), /m);
    expect(text).not.toMatch(/slower.*(attention|communication)/);
  });

  it('says where nothing is slower', () => {
    const [matmuls] = rows;
    const text = comparisonText({
      numSteps: 1,
      rows: [{ ...matmuls!, measured: 0.09 }],
      measuredBytes: 1,
      plannedBytes: 1,
    });
    expect(text).toMatch(/slower than planned: nothing by 2 % of the step$/);
  });
});

const breakdown = {
  matmuls: 0.1,
  attention: 0.01,
  kernels: 0.02,
  host: 0,
  tensorCommunication: 0,
  contextCommunication: 0,
  expertCommunication: 0,
  pipelineCommunication: 0,
  dataCommunication: 0,
  bubble: 0,
  optimizer: 0.01,
};
const makePlan = (idle: readonly number[]) =>
  ({
    breakdown,
    iterationSeconds: 0.14,
    ranks: [{ memoryBytes: 2 ** 20 }],
    simulation: { ranks: idle.map((each) => ({ idle: each })) },
  }) as unknown as RunPlan;
const metrics = (stepMs: number) => ({ stepMs, peakBytes: 2 ** 20 }) as StepMetrics;

describe('PlanComparison', () => {
  it('leaves out the first four steps, and prints after ten more', () => {
    const written: string[] = [];
    const comparison = new PlanComparison({
      plan: makePlan([0]),
      groups: {},
      write: (text) => void written.push(text),
    });
    for (let step = 1; step <= 4; step++) comparison.step(metrics(900));
    expect(comparison.text()).toBe('plan: no step after the first 4 to compare with it');
    for (let step = 5; step <= 14; step++) {
      expect(written).toEqual([]);
      comparison.step(metrics(140));
    }
    // no operation was timed, so all time counts as host time
    expect(written).toHaveLength(1);
    expect(written[0]).toMatch(/other kernels and host +140\.0 ms +planned +30\.0 ms/);
  });

  it('compares what the first stage of a pipeline computes, and how long it waits', () => {
    const comparison = new PlanComparison({ plan: makePlan([40, 0]), groups: {}, write: () => {} });
    for (let step = 1; step <= 5; step++) comparison.step(metrics(120));
    const text = comparison.text();
    expect(text).toMatch(/computation +120\.0 ms +planned +100\.0 ms {2}\+20\.0 %$/m);
    expect(text).toMatch(/communication and bubble +0\.0 ms +planned +40\.0 ms/);
  });
});

describe('planToCompare', () => {
  it('refuses GPUs, and machines without a profile', async () => {
    const run: RunOptions = {
      preset: 'gpt2-124m',
      data: { dataPath: ['bundled'] },
      optimizer: { maxLearningRate: 1 },
      training: { trainIterations: 1 },
      logging: { comparesWithPlan: true },
    };
    const planned = (layout: RunOptions['layout']) =>
      planToCompare(configure({ ...run, layout }), { MTL_PROFILE: '/nowhere/profile.json' });
    await expect(planned({ device: 'cuda' })).rejects.toMatchObject({ code: 'MTL_CALIBRATE_DEVICE' });
    await expect(planned({})).rejects.toMatchObject({ code: 'MTL_PROFILE_NAME' });
  });
});
