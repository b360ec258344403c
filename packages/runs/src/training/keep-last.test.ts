import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Checkpoint, runOfCheckpoint, saveCheckpoint } from '@mtl/checkpoint';
import { afterAll, expect, it } from 'vitest';
import { preparedCorpus } from '../../test/support/prepared-corpus.js';
import { type TrainOptions, train } from './train.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-keep-last-'));
afterAll(() => rmSync(directory, { recursive: true }));

const tiny = {
  preset: 'char-10m',
  model: { numLayers: 1, hiddenSize: 32, numAttentionHeads: 2, maxPositionEmbeddings: 16 },
  data: { sequenceLength: 16, split: '1,0,0', ...(await preparedCorpus(directory)).data },
  training: { microBatchSize: 2, globalBatchSize: 2, trainIterations: 100, evalIterations: 0 },
  layout: { threads: 1 },
  logging: { noEvalSamples: true },
} as const satisfies TrainOptions;

const iterations = (save: string): number[] =>
  readdirSync(save).flatMap((name) => (name.startsWith('iter_') ? [Number(name.slice(5))] : []));

/**
 * Trains in the same way as a job that is preempted after every step whose number is a multiple of
 * `exitInterval`.
 */
async function job(exitInterval: number, checkpoint: NonNullable<TrainOptions['checkpoint']>): Promise<void> {
  const training = { ...tiny.training, exitInterval };
  await using run = await train({ ...tiny, training, checkpoint: { saveInterval: 1, ...checkpoint } });
  await run.run();
}

it('counts the checkpoints of all jobs of a run, and leaves the one that it was loaded from', async () => {
  const save = join(directory, 'preempted');
  const kept = { save, load: save, keepLast: 2 };
  await job(3, kept);
  expect(iterations(save)).toEqual([2, 3]);
  for (const exit of [6, 9]) {
    await job(exit, kept);
    expect(iterations(save)).toEqual([exit - 3, exit - 1, exit]);
  }
});

it('leaves checkpoints of other runs, converted ones, and the branch that --ckpt-step leaves', async () => {
  const save = join(directory, 'branch');
  const converted = { iteration: 1, tensors: [], state: {} };
  const kept = { save, load: save, keepLast: 1 };
  await job(4, { save, load: save });
  await saveCheckpoint({ directory: save, ...converted, iteration: 50 });
  await saveCheckpoint({ directory: save, ...converted, iteration: 51, run: 'another' });
  const describeRun = async (iteration: number) =>
    await runOfCheckpoint(await Checkpoint.open(join(save, `iter_${String(iteration).padStart(7, '0')}`)));
  // returns to step 2, so that checkpoints 3 and 4 are no longer part of the run that continues
  await job(10, { ...kept, checkpointStep: 2, saveInterval: 5 });
  expect(iterations(save)).toEqual([1, 2, 3, 4, 10, 50, 51]);
  expect(await describeRun(10)).not.toBe(await describeRun(4));
  // a job that starts at the newest checkpoint continues the same run
  await job(12, { ...kept, checkpointStep: 10, saveInterval: 6 });
  expect(iterations(save)).toEqual([1, 2, 3, 4, 10, 12, 50, 51]);
  expect(await describeRun(12)).toBe(await describeRun(10));
});
