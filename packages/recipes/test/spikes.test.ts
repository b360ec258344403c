import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { numbersOf, TrainingRuns, tolerances } from './support/training-runs.js';

let runs: TrainingRuns;
const window = ['--loss-spike-window', '6'];
const layout = [
  ...['--tensor-model-parallel-size', '2', '--pipeline-model-parallel-size', '2'],
  ...['--use-distributed-optimizer', '--overlap-grad-reduce'],
];
const skip = (factor: number) => ({
  flags: [...window, '--loss-spike-policy', 'skip'],
  spike: { iteration: 9, factor },
});
const rollBack = {
  flags: [...window, '--loss-spike-policy', 'roll-back', '--save-interval', '4'],
  spike: { iteration: 11, factor: 100 },
};

beforeAll(async () => {
  runs = await TrainingRuns.create(['--train-iters', '14', '--eval-iters', '0']);
  await runs.run(1, [
    { name: 'alone', ...skip(100) },
    { name: 'alone-back', ...rollBack },
  ]);
  const results = await runs.run(8, [
    { name: 'ranks', ...skip(100), flags: [...skip(100).flags, ...layout] },
    { name: 'larger', ...skip(10_000), flags: [...skip(0).flags, ...layout] },
    { name: 'back', ...rollBack, flags: [...rollBack.flags, ...layout] },
  ]);
  expect(results[0]!.slice(1).map(({ output }) => output)).toEqual(Array.from({ length: 7 }, () => ''));
});
afterAll(() => runs.remove());

const skipped = (name: string): number[] =>
  runs.recordsOf(name).flatMap(({ skipped, iteration }) => (skipped === true ? [iteration] : []));
const events = (name: string) => runs.recordsOf(name).filter(({ type }) => type !== undefined);

function expectSame(name: string, expected: string, iteration: number): void {
  const [actual, reference] = [runs.metricsOf(name), runs.metricsOf(expected)];
  expect(actual.length).toBe(14);
  actual.forEach(({ lm_loss, grad_norm }, index) => {
    expect(Math.abs(lm_loss / reference[index]!.lm_loss - 1)).toBeLessThan(tolerances.fp32.loss);
    if (index + 1 === iteration) return;
    expect(Math.abs(grad_norm / reference[index]!.grad_norm - 1)).toBeLessThan(tolerances.fp32.norm);
  });
}

describe('a spike of the gradients on 2 x 2 x 2 ranks', () => {
  it('is skipped as in one process, and its size changes no bit of another step', () => {
    for (const name of ['alone', 'ranks', 'larger']) expect(skipped(name)).toEqual([9]);
    expectSame('ranks', 'alone', 9);
    const others = (name: string): number[][] =>
      numbersOf(runs.metricsOf(name).filter(({ iteration }) => iteration !== 9));
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
});
