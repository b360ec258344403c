import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RunOptions } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { LearningRateSchedule } from '@mtl/optimizer';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { listNumbers, TrainingRuns } from './support/training-runs.js';

const main = { maxLearningRate: 5e-3, minLearningRate: 1e-4 };
const own = { maxLearningRate: 2e-2, minLearningRate: 2e-3 };
const recipe: RunOptions = {
  optimizer: {
    maxLearningRate: main.maxLearningRate,
    minLearningRate: main.minLearningRate,
    learningRateDecayIterations: 12,
    learningRateWarmupIterations: 3,
    weightDecay: 0.1,
  },
  training: { trainIterations: 12, evalInterval: 12 },
};
const decoupled: RunOptions = {
  optimizer: { decoupledMaxLearningRate: own.maxLearningRate, decoupledMinLearningRate: own.minLearningRate },
};
const distributed: RunOptions = {
  layout: { useDistributedOptimizer: true, overlapGradReduce: true, overlapParamGather: true },
};
const tensor: RunOptions = { layout: { tensorModelParallelSize: 2, sequenceParallel: true } };
const pipeline: RunOptions = { layout: { pipelineModelParallelSize: 2 } };
const untied: RunOptions = { model: { untieEmbeddingsAndOutputWeights: true } };
const muon: RunOptions = { optimizer: { optimizer: 'muon', muonExtraScaleFactor: 0.2 } };
const half: RunOptions = { training: { exitInterval: 6 } };

let runs: TrainingRuns;
beforeAll(async () => {
  runs = await TrainingRuns.create(recipe);
  await runs.run(1, [
    { name: 'plain' },
    {
      name: 'equal',
      options: { optimizer: { decoupledMaxLearningRate: main.maxLearningRate } },
    },
    { name: 'alone', options: decoupled },
    { name: 'alone-untied', options: mergeOptions(decoupled, untied) },
    { name: 'alone-muon', options: mergeOptions(decoupled, muon) },
    { name: 'half', options: mergeOptions(decoupled, half) },
    { name: 'half', options: mergeOptions(decoupled, { checkpoint: { load: runs.locate('half') } }) },
  ]);
});
afterAll(() => runs.remove());

/**
 * Returns the tensors of a run's last checkpoint by name, in base64: the order of tensors in a file is the
 * order of the optimizer's states, which changes with two rates.
 */
function readTensors(name: string): Readonly<Record<string, string>> {
  const folder = join(runs.locate(name), 'iter_0000012');
  const files = readdirSync(folder).filter((file) => file.endsWith('.safetensors'));
  expect(files.length).toBe(1);
  const bytes = readFileSync(join(folder, files[0]!));
  const start = 8 + Number(bytes.readBigUInt64LE());
  const { __metadata__: _, ...tensors } = JSON.parse(bytes.toString('utf8', 8, start)) as Record<
    string,
    { readonly data_offsets: readonly [begin: number, end: number] }
  >;
  return Object.fromEntries(
    Object.entries(tensors).map(
      ([
        key,
        {
          data_offsets: [begin, end],
        },
      ]) => [key, bytes.toString('base64', start + begin, start + end)],
    ),
  );
}

describe('a GPT whose embedding and output layer have a learning rate of their own', () => {
  it('has the bits of one rate where both are equal', () => {
    expect(listNumbers(runs.readMetrics('equal'))).toEqual(listNumbers(runs.readMetrics('plain')));
    expect(readTensors('equal')).toEqual(readTensors('plain'));
  });

  it('learns in another way where they differ, and reports both rates of the schedule', () => {
    const [plain, alone] = [runs.readRecords('plain'), runs.readRecords('alone')].map((records) =>
      records.filter(({ type }) => type === undefined),
    );
    // the first step has rate 0
    expect(alone!.slice(0, 2).map(({ lm_loss }) => lm_loss)).toEqual(
      plain!.slice(0, 2).map(({ lm_loss }) => lm_loss),
    );
    expect(alone!.at(-1)!.lm_loss).not.toBe(plain!.at(-1)!.lm_loss);
    expect(alone![0]!.lm_loss - alone!.at(-1)!.lm_loss).toBeGreaterThan(0.5);
    const counts = { decayStyle: 'cosine', warmupSteps: 3, decaySteps: 12 } as const;
    const [ofMain, ofTables] = [main, own].map((rates) => new LearningRateSchedule({ ...rates, ...counts }));
    alone!.forEach((record, step) => {
      expect(record.learning_rate).toBe(ofMain!.at(step));
      expect(record.decoupled_learning_rate).toBe(ofTables!.at(step));
    });
    expect(plain![0]).not.toHaveProperty('decoupled_learning_rate');
  });

  it('resumes bitwise', () => {
    expect(listNumbers(runs.readMetrics('half')).slice(-6)).toEqual(
      listNumbers(runs.readMetrics('alone')).slice(-6),
    );
    expect(readTensors('half')).toEqual(readTensors('alone'));
  });

  it('trains as in one process: 2 ranks', async () => {
    await runs.run(2, [
      { name: 'tensor', options: mergeOptions(decoupled, tensor) },
      // the tied table is on both stages
      { name: 'pipeline', options: mergeOptions(decoupled, pipeline) },
      { name: 'data', options: decoupled },
      { name: 'distributed', options: mergeOptions(decoupled, distributed) },
      { name: 'untied', options: mergeOptions(decoupled, untied, pipeline) },
      { name: 'muon', options: mergeOptions(decoupled, muon, distributed) },
      { name: 'muon-stages', options: mergeOptions(decoupled, muon, pipeline) },
    ]);
    for (const name of ['tensor', 'pipeline', 'data', 'distributed']) runs.expectSame(name, 'alone');
    runs.expectSame('untied', 'alone-untied');
    for (const name of ['muon', 'muon-stages']) runs.expectSame(name, 'alone-muon');
    expect(listNumbers(runs.readMetrics('distributed'))).toEqual(listNumbers(runs.readMetrics('data')));
  });

  it('goes on from the checkpoint of another layout', async () => {
    const options = mergeOptions(decoupled, tensor, distributed);
    await runs.run(4, [{ name: 'four', options: mergeOptions(options, half) }]);
    await runs.run(2, [
      {
        name: 'four',
        options: mergeOptions(decoupled, pipeline, { checkpoint: { load: runs.locate('four') } }),
      },
    ]);
    runs.expectSame('four', 'alone');
  });
});

describe('a run that resumes another schedule', () => {
  const late: RunOptions = { checkpoint: { checkpointStep: 6 } };

  it('takes the rates of a checkpoint for embedding and output layer', async () => {
    const options = mergeOptions(late, {
      checkpoint: { load: runs.locate('half'), useCheckpointOptParamScheduler: true },
    });
    await runs.run(1, [{ name: 'as-before', options }]);
    expect(listNumbers(runs.readMetrics('as-before'))).toEqual(
      listNumbers(runs.readMetrics('alone')).slice(-6),
    );
  });

  it('goes on from a checkpoint that was trained with one rate', async () => {
    await runs.run(1, [{ name: 'one', options: half }]);
    const load: RunOptions = { checkpoint: { load: runs.locate('one') } };
    await expect(
      runs.run(1, [{ name: 'other', options: mergeOptions(decoupled, load) }]),
    ).rejects.toMatchObject({
      code: 'MTL_CHECKPOINT_SCHEDULE',
    });
    const options = mergeOptions(decoupled, load, { checkpoint: { overrideOptParamScheduler: true } });
    await runs.run(1, [{ name: 'other', options }]);
    const [first] = runs.readRecords('other');
    expect(first).toMatchObject({ iteration: 7, decoupled_learning_rate: expect.any(Number) as number });
    // the first loss comes from the weights of the checkpoint
    expect(first!.lm_loss).toBe(runs.readMetrics('plain')[6]!.lm_loss);
  });
});
