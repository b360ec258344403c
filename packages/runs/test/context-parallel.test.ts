import type { RunOptions } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { inWholeRuns } from '@mtl/tooling/in-whole-runs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TrainGptResult } from './ranks/train-gpt.js';
import { checkpointBytes } from './support/checkpoint-bytes.js';
import {
  listNumbers,
  printedTwice,
  TrainingRuns,
  tolerances,
  validationDifference,
} from './support/training-runs.js';

const training: RunOptions = {
  training: { trainIterations: 8, evalInterval: 4 },
  optimizer: { learningRateDecayIterations: 8 },
  checkpoint: { saveInterval: 4 },
};
const divided: RunOptions = {
  layout: { contextParallelSize: 2, useDistributedOptimizer: true, overlapGradReduce: true },
};

let runs: TrainingRuns;
beforeAll(async () => {
  runs = await TrainingRuns.create(training);
});
afterAll(() => runs.remove());

const at = (name: string, iteration: number): string =>
  `${runs.locate(name)}/iter_${String(iteration).padStart(7, '0')}`;

describe('sequences that two ranks share', () => {
  let alone: TrainGptResult;
  let two: TrainGptResult;

  beforeAll(async () => {
    alone = (await runs.run(1, [{ name: 'alone' }]))[0]![0]!;
    const all = await runs.run(2, [
      { name: 'divided', options: divided },
      { name: 'stopped', options: mergeOptions(divided, { training: { exitInterval: 3 } }) },
    ]);
    two = all[0]![0]!;
  });

  it('are trained and evaluated as on one process', () => {
    const { loss, norm } = runs.differences('divided', 'alone');
    expect(loss).toBeLessThan(tolerances.fp32.loss);
    expect(norm).toBeLessThan(tolerances.fp32.norm);
    expect(validationDifference(two.output, alone.output)).toBeLessThan(printedTwice + tolerances.fp32.loss);
  });

  it('are resumed bit by bit', async () => {
    const goesOn = mergeOptions(divided, { checkpoint: { load: runs.locate('stopped') } });
    await runs.run(2, [{ name: 'stopped', options: goesOn }]);
    expect(listNumbers(runs.readMetrics('stopped'))).toEqual(listNumbers(runs.readMetrics('divided')));
    expect(checkpointBytes(at('stopped', 8))).toEqual(checkpointBytes(at('divided', 8)));
  });

  it.each<[string, number, RunOptions]>([
    ['whole', 1, {}],
    // the previous run was divided with p2p
    [
      'in another way for each layer',
      2,
      { layout: { contextParallelSize: 2, cpCommType: ['a2a', 'all_gather'] } },
    ],
    ...inWholeRuns<[string, number, RunOptions][]>([
      'over four ranks',
      4,
      { layout: { contextParallelSize: 4, cpCommType: ['all_gather'] } },
    ]),
  ])('go on in another layout, since no file knows of it: %s', async (layout, worldSize, options) => {
    const load: RunOptions = { checkpoint: { load: runs.locate('divided'), checkpointStep: 4 } };
    const name = `from divided ${layout}`;
    await runs.run(worldSize, [{ name, options: mergeOptions(options, load) }]);
    const actual = runs.readMetrics(name);
    const expected = runs.readMetrics('divided').slice(4);
    expect(actual.map(({ iteration }) => iteration)).toEqual([5, 6, 7, 8]);
    actual.forEach(({ lm_loss, grad_norm }, index) => {
      expect(Math.abs(lm_loss / expected[index]!.lm_loss - 1)).toBeLessThan(tolerances.fp32.loss);
      expect(Math.abs(grad_norm / expected[index]!.grad_norm - 1)).toBeLessThan(tolerances.fp32.norm);
    });
  });
});
