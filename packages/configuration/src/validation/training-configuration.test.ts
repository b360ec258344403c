import { describe, expect, it } from 'vitest';
import { catchError, configure, small, withFlags } from '../../test/support/configure.js';
import { refusals } from '../../test/support/refusals.js';

describe('trainingConfiguration', () => {
  it('cuts the batch over data-parallel ranks', () => {
    const { training, parallel } = configure(
      `${small} --global-batch-size 24 --tensor-model-parallel-size 2`,
      6,
    );
    expect(parallel.dataParallelSize).toBe(3);
    expect(training.numMicroBatches).toBe(4);
    expect(configure(small, 4).training.globalBatchSize).toBe(8);
  });

  it('counts training in samples when asked, ramp-up included', () => {
    const line = `${small} --micro-batch-size 1 --rampup-batch-size 2 2 30 --global-batch-size 8 --train-samples 42`;
    const { training, optimizer } = configure(
      `${line.replace('--micro-batch-size 2 ', '').replace('--train-iters 100 ', '')} --lr-warmup-fraction 0.5`,
    );
    expect(training).toMatchObject({ trainIterations: 11, trainSamples: 42 });
    expect(training.rampup).toEqual({ start: 2, increment: 2, samples: 30 });
    expect(optimizer.learningRate).toMatchObject({ unit: 'samples', decaySteps: 42, warmupSteps: 21 });
  });

  it('replaces everything that is counted in iterations where the batch grows, in one refusal', () => {
    const line =
      '--train-iters 100 --rampup-batch-size 2 2 30 --global-batch-size 8 --lr-decay-iters 80 --lr-warmup-iters 10';
    const error = catchError(withFlags(line));
    expect(error.code).toBe('MTL_FLAG_NEEDS');
    const [, given, instead] = /^replace (.*) by (.*), which/.exec(error.remedy!)!;
    expect(given).toBe('--train-iters 100 --lr-decay-iters 80 --lr-warmup-iters 10');
    const { training, optimizer } = configure(
      [...given!.matchAll(/--\S+ \d+/g)].reduce((text, [flag]) => text.replace(flag, ''), withFlags(line)) +
        ` ${instead}`,
    );
    expect(training.trainIterations).toBe(100);
    expect(optimizer.learningRate).toMatchObject({ unit: 'samples' });
    expect(optimizer.learningRate.decaySteps).toBeLessThan(training.trainSamples!);
  });

  it.each([
    [
      '--full',
      '--recompute-granularity full --recompute-method block --recompute-num-layers 3',
      { granularity: 'full', method: 'block', numLayers: 3 },
    ],
    [
      '--uniform',
      '--recompute-granularity full --recompute-method uniform',
      { granularity: 'full', method: 'uniform', numLayers: 1 },
    ],
    ['--selective', '--recompute-granularity selective', { granularity: 'selective' }],
  ])('describes recomputation: %s', (_, line, recompute) => {
    expect(configure(`${small} ${line}`).training.recompute).toEqual(recompute);
  });
});

refusals(
  [
    [
      '--train-iters 9 --iterations-to-skip 2 10',
      1,
      'MTL_FLAG_VALUE',
      /has no step 10; expected .*from 1 to 9/,
    ],
    ['--iterations-to-skip 0', 1, 'MTL_FLAG_VALUE', /expected one or more whole numbers of 1 or more/],
    [
      '--global-batch-size 5',
      1,
      'MTL_BATCH_SIZE',
      /--global-batch-size 5 is not a multiple of 2 .*; expected 4 or 6/,
    ],
    ['--global-batch-size 6', 2, 'MTL_BATCH_SIZE', /multiple of 4 .*data-parallel size 2.*; expected 4 or 8/],
    [
      '--rampup-batch-size 2 2 100',
      1,
      'MTL_FLAG_NEEDS',
      /--rampup-batch-size 2 2 100 counts samples.*expected --train-samples/,
    ],
    [
      '--no-train-iters --rampup-batch-size 4 3 100 --global-batch-size 8 --train-samples 500',
      1,
      'MTL_RAMPUP_BATCH_SIZE',
      /by 3, which does not divide 4/,
    ],
    [
      '--train-samples 100',
      1,
      'MTL_FLAG_CONFLICT',
      /--train-iters 100 and --train-samples 100: training is counted in one or the other/,
    ],
    [
      '--no-train-iters --train-samples 1',
      1,
      'MTL_TRAIN_ITERS',
      /--train-samples 1 is less than one global batch; expected 2 samples/,
    ],
    ['--no-train-iters', 1, 'MTL_FLAG_REQUIRED', /--train-iters \(or --train-samples\) is missing/],
    ['--bf16 --fp16', 1, 'MTL_FLAG_CONFLICT', /--bf16 and --fp16: there is one precision/],
    ['--recompute-granularity full', 1, 'MTL_FLAG_NEEDS', /expected --recompute-method uniform or block/],
    [
      '--recompute-method block',
      1,
      'MTL_FLAG_NEEDS',
      /--recompute-method block sets how whole layers .*; expected --recompute-granularity full/,
    ],
    [
      '--recompute-granularity selective --recompute-num-layers 1',
      1,
      'MTL_FLAG_NEEDS',
      /--recompute-num-layers 1 sets how/,
    ],
    [
      '--recompute-granularity full --recompute-method block --recompute-num-layers 5',
      1,
      'MTL_RECOMPUTE',
      /5 is more than the 4 layers of a chunk; expected 1 to 4/,
    ],
    [
      '--recompute-granularity full --recompute-method block --recompute-num-layers 3 --pipeline-model-parallel-size 2',
      2,
      'MTL_RECOMPUTE',
      /3 is more than the 2 layers/,
    ],
  ],
  { numAdvised: 3 },
);
