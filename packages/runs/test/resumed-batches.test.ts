import type { RunOptions } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { LearningRateSchedule } from '@mtl/optimizer';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { listNumbers, type Training, TrainingRuns } from './support/training-runs.js';

const trainSamples = 64;
const leftOut: RunOptions = {
  training: {
    trainIterations: undefined,
    evalIterations: undefined,
    globalBatchSize: undefined,
  },
  optimizer: { learningRateDecayIterations: undefined },
};
const ramp: RunOptions = { training: { rampupBatchSize: [2, 2, 20], globalBatchSize: 8 } };

let runs: TrainingRuns;
beforeAll(async () => {
  runs = await TrainingRuns.create();
  const start = (name: string, options: RunOptions): Training => ({
    name,
    options: mergeOptions(leftOut, options, { training: { trainSamples, evalIterations: 0 } }),
  });
  await runs.run(1, [
    start('fours', { training: { globalBatchSize: 4, exitInterval: 7 } }),
    // steps of 2, 2, 2, 2, 4, 4 and 6 samples, 22 in all, then of 8 samples
    start('growing', mergeOptions(ramp, { training: { exitInterval: 3 } })),
    start('grown', mergeOptions(ramp, { training: { exitInterval: 8 } })),
    start('grown alone', ramp),
  ]);
});
afterAll(() => runs.remove());

/**
 * Returns a training run that continues another run, with the options of its checkpoint except the given
 * ones.
 */
const resumed = (from: string, name: string, options: RunOptions = {}): Training => ({
  name,
  options: mergeOptions(
    leftOut,
    { training: { microBatchSize: undefined }, checkpoint: { load: runs.locate(from) } },
    options,
  ),
});

/** Returns the consumed samples after each step. */
const readSamples = (name: string) =>
  runs
    .readRecords(name)
    .filter(({ type }) => type === undefined)
    .map((record) => record.consumed_samples as number);

describe('a training run counted in samples', () => {
  it.each([
    {
      from: 'fours',
      options: { training: { globalBatchSize: 8 } },
      samples: [36, 44, 52, 60],
      iteration: 11,
    },
    { from: 'fours', options: { training: { globalBatchSize: 12 } }, samples: [40, 52, 64], iteration: 10 },
    {
      from: 'fours',
      options: { training: { globalBatchSize: 2 } },
      samples: Array.from({ length: 18 }, (_, step) => 30 + 2 * step),
      iteration: 25,
    },
    {
      from: 'fours',
      options: { training: { rampupBatchSize: [2, 2, 40], globalBatchSize: 10 } },
      // the batch size grows every 10 samples: 6 from sample 20 on, 8 from 30 on, 10 from 40 on
      samples: [34, 42, 52, 62],
      iteration: 11,
    },
    {
      from: 'growing',
      options: { training: { globalBatchSize: 6 } },
      samples: [8, 10, 14, 18, 22, 28],
      iteration: 15,
    },
    { from: 'fours', options: { training: { trainSamples: 44 } }, samples: [32, 36, 40, 44], iteration: 11 },
  ])('ends with its samples when it goes on from $from with $options', async (given) => {
    const { from, options, samples, iteration } = given;
    const name = `${from} ${JSON.stringify(options)}`;
    const [[result] = []] = await runs.run(1, [
      resumed(from, name, mergeOptions(options, { checkpoint: { overrideOptParamScheduler: true } })),
    ]);
    expect(result!.reason).toBe('done');
    expect(readSamples(name).slice(0, samples.length)).toEqual(samples);
    const last = readSamples(name).at(-1)!;
    expect(last).toBeLessThanOrEqual(trainSamples);
    expect(runs.readMetrics(name).at(-1)!.iteration).toBe(iteration);
    expect(result!.output).toMatch(new RegExp(`iteration +${iteration}/ +${iteration} \\|`));
  });

  it('has the learning rate of its samples, whatever the batches before', async () => {
    await runs.run(1, [resumed('fours', 'rates', { training: { globalBatchSize: 8 } })]);
    const schedule = new LearningRateSchedule({
      maxLearningRate: 5e-3,
      decayStyle: 'cosine',
      decaySteps: trainSamples,
    });
    const rates = runs.readRecords('rates').map((record) => record.learning_rate);
    expect(rates).toEqual([28, 36, 44, 52].map((samples) => schedule.at(samples)));
  });

  it('says what is left of the samples where no batch fits any more', async () => {
    const [[result] = []] = await runs.run(1, [
      resumed('fours', 'nothing left', { training: { globalBatchSize: 40 } }),
    ]);
    expect(result!.output).toContain(
      'note: 28 samples are consumed and --train-samples is 64, less than a global batch of 40 more: nothing is left to train',
    );
  });
});

describe('a ramp-up of the batch that is over', () => {
  it('asks for no more of the layout than the batches that are left', async () => {
    // 2, 4 or 6 samples could not be divided over the ranks
    const [results] = await runs.run(2, [resumed('grown', 'on two', { training: { microBatchSize: 4 } })]);
    expect(results!.map(({ reason }) => reason)).toEqual(Array(2).fill('done'));
    expect(readSamples('on two')).toEqual([38, 46, 54, 62]);
    const [own, alone] = [runs.readMetrics('on two'), runs.readMetrics('grown alone').slice(8)];
    listNumbers(own).forEach(([loss], step) => {
      expect(Math.abs(loss! / alone[step]!.lm_loss - 1)).toBeLessThan(2e-6);
    });
  });

  it('is refused on the same number of ranks before it is over', async () => {
    const layout: RunOptions = { training: { microBatchSize: 4 } };
    await expect(runs.run(2, [resumed('growing', 'refused', layout)])).rejects.toThrow(
      /the start of --rampup-batch-size 2 is not a multiple of 8/,
    );
  });
});

describe('a training run counted in iterations', () => {
  it('has the samples of larger batches that came before smaller ones', async () => {
    const steps = (globalBatchSize: number): RunOptions =>
      mergeOptions(leftOut, { training: { trainIterations: 9, evalIterations: 0, globalBatchSize } });
    await runs.run(1, [
      {
        name: 'large',
        options: mergeOptions(steps(64), { training: { microBatchSize: 32, exitInterval: 5 } }),
      },
      {
        name: 'small',
        options: mergeOptions(steps(2), {
          checkpoint: { load: runs.locate('large'), overrideOptParamScheduler: true },
        }),
      },
    ]);
    expect(readSamples('small')).toEqual([322, 324, 326, 328]);
  });
});
