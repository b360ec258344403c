import { hostname } from 'node:os';
import type { RunOptions } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { listNumbers, TrainingRuns, tolerances } from './support/training-runs.js';

let runs: TrainingRuns;
const window: RunOptions = { spikes: { window: 6 } };
const tensor: RunOptions = { layout: { tensorModelParallelSize: 2 } };
const layout = mergeOptions(tensor, { layout: { useDistributedOptimizer: true, overlapGradReduce: true } });
const pipeline = mergeOptions(tensor, { layout: { pipelineModelParallelSize: 2 } });
const skip = (factor: number) => ({
  options: mergeOptions(window, { spikes: { policy: 'skip' } }),
  spike: { iteration: 9, factor },
});
const rerun: RunOptions = { spikes: { rerunMode: 'validate_results' } };
const rollBack = {
  options: mergeOptions(window, {
    spikes: { policy: 'roll-back' },
    checkpoint: { saveInterval: 4 },
  }),
  spike: { iteration: 11, factor: 100 },
};

const leftOut: RunOptions = { training: { iterationsToSkip: [4, 7] } };

beforeAll(async () => {
  runs = await TrainingRuns.create({ training: { trainIterations: 12, evalIterations: 0 } });
  await runs.run(1, [
    { name: 'alone', ...skip(100) },
    { name: 'alone-back', ...rollBack },
    { name: 'alone-left-out', options: leftOut },
  ]);
  const results = await runs.run(4, [
    { name: 'ranks', ...skip(100), options: mergeOptions(skip(100).options, layout) },
    { name: 'larger', ...skip(10_000), options: mergeOptions(skip(0).options, layout, rerun) },
    {
      name: 'wrong once',
      options: mergeOptions(
        window,
        mergeOptions(layout, { layout: { overlapGradReduce: undefined } }),
        rerun,
      ),
      wrongOnce: { iteration: 8, rank: 3 },
    },
    { name: 'back', ...rollBack, options: mergeOptions(rollBack.options, pipeline) },
    { name: 'left-out', options: mergeOptions(leftOut, pipeline) },
  ]);
  expect(results[0]!.slice(1).map(({ output }) => output)).toEqual(Array.from({ length: 3 }, () => ''));
});
afterAll(() => runs.remove());

const skipped = (name: string): number[] =>
  runs.readRecords(name).flatMap(({ skipped, iteration }) => (skipped === true ? [iteration] : []));
const events = (name: string) =>
  runs.readRecords(name).filter(({ type }) => !['ranks', 'slow_rank'].includes(type ?? 'ranks'));

function expectSame(name: string, expected: string, iteration: number): void {
  const [actual, reference] = [runs.readMetrics(name), runs.readMetrics(expected)];
  expect(actual.length).toBe(12);
  actual.forEach(({ lm_loss, grad_norm }, index) => {
    expect(Math.abs(lm_loss / reference[index]!.lm_loss - 1)).toBeLessThan(tolerances.fp32.loss);
    if (index + 1 === iteration) return;
    expect(Math.abs(grad_norm / reference[index]!.grad_norm - 1)).toBeLessThan(tolerances.fp32.norm);
  });
}

describe('a spike of the gradients on 2 x 2 ranks', () => {
  it('is skipped as in one process, and its size changes no bit of another step', () => {
    for (const name of ['alone', 'ranks', 'larger']) expect(skipped(name)).toEqual([9]);
    expectSame('ranks', 'alone', 9);
    const others = (name: string): number[][] =>
      listNumbers(runs.readMetrics(name).filter(({ iteration }) => iteration !== 9));
    expect(others('larger')).toEqual(others('ranks'));
  });

  it('is in the metrics, with the documents of its samples', () => {
    const [event, ...others] = events('ranks');
    expect(others).toEqual([]);
    expect(event).toMatchObject({
      type: 'spike',
      iteration: 9,
      action: 'skip',
      first_sample: 64,
      num_samples: 8,
      sources: [{ source: expect.stringMatching(/_text_document$/), documents: expect.any(Array) }],
    });
    expect(event!.grad_norm).toBeGreaterThan(event!.grad_norm_limit as number);
    const [alone] = events('alone');
    expect(event!.sources).toEqual(alone!.sources);
  });

  it('takes all ranks back to their newest checkpoint', () => {
    for (const name of ['alone-back', 'back']) {
      expect(skipped(name)).toEqual([11]);
      expect(
        events(name).map(({ type, iteration, checkpoint_iteration }) => [
          type,
          iteration,
          checkpoint_iteration,
        ]),
      ).toEqual([
        ['spike', 11, undefined],
        ['roll_back', 11, 8],
      ]);
    }
    expectSame('back', 'alone-back', 11);
  });

  it('comes of the data where the step has the same bits again', () => {
    expect(events('larger').map(({ type, result }) => [type, result])).toEqual([
      ['rerun', 'reproducible'],
      ['spike', undefined],
    ]);
  });
});

describe('a gradient that is wrong once on 2 x 2 ranks', () => {
  it('is a fault of its rank, and never reaches the weights', () => {
    expect(skipped('wrong once')).toEqual([]);
    expect(events('wrong once')).toMatchObject([
      { type: 'rerun', iteration: 8, result: 'transient', ranks: [3], hosts: [hostname()] },
    ]);
    const losses = (name: string): number[] =>
      runs.readMetrics(name).flatMap(({ iteration, lm_loss }) => (iteration <= 9 ? [lm_loss] : []));
    expect(losses('wrong once')).toEqual(losses('ranks'));
  });
});

describe('steps that are left out on 2 x 2 ranks', () => {
  it('have no loss, and the others equal the steps of one process', () => {
    const computed = (name: string) =>
      runs.readMetrics(name).filter(({ iteration }) => ![4, 7].includes(iteration));
    for (const name of ['left-out', 'alone-left-out']) {
      expect(skipped(name)).toEqual([4, 7]);
      const [record] = runs.readRecords(name).filter(({ iteration }) => iteration === 7);
      expect(record).toMatchObject({ lm_loss: null, grad_norm: null, consumed_samples: 56, tokens_per_s: 0 });
    }
    const [actual, reference] = [computed('left-out'), computed('alone-left-out')];
    expect(actual.length).toBe(10);
    actual.forEach(({ lm_loss, grad_norm }, index) => {
      expect(Math.abs(lm_loss / reference[index]!.lm_loss - 1)).toBeLessThan(tolerances.fp32.loss);
      expect(Math.abs(grad_norm / reference[index]!.grad_norm - 1)).toBeLessThan(tolerances.fp32.norm);
    });
  });
});

describe('the ranks of a run', () => {
  it('tell what each rank computes, waits and holds, at the start, at the end, and in between', () => {
    const records = runs.readRecords('ranks').filter(({ type }) => type === 'ranks');
    // the reports in between depend on the time that steps take
    expect([records[0]!.iteration, records.at(-1)!.iteration]).toEqual([1, 12]);
    expect(records[0]!.hosts).toEqual(Array(4).fill(hostname()));
    for (const { compute_ms, waited_ms, peak_bytes } of records) {
      for (const numbers of [compute_ms, waited_ms, peak_bytes] as number[][]) {
        expect(numbers.length).toBe(4);
        expect(numbers.every((each) => each > 0)).toBe(true);
      }
    }
    expect(runs.readRecords('alone').some(({ type }) => type === 'ranks')).toBe(false);
  });
});
