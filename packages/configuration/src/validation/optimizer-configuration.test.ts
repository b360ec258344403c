import { describe, expect, it } from 'vitest';
import { configure, small, withFlags } from '../../test/support/configure.js';
import { refusals } from '../../test/support/refusals.js';

describe('optimizerConfiguration', () => {
  it('scales the loss dynamically in fp16, unless told otherwise', () => {
    expect(configure(`${small} --fp16`).optimizer.lossScale).toEqual({
      kind: 'dynamic',
      initialScale: 2 ** 32,
      minScale: 1,
      growthInterval: 1000,
      hysteresis: 2,
    });
    expect(configure(`${small} --fp16 --loss-scale 128`).optimizer.lossScale).toEqual({
      kind: 'constant',
      scale: 128,
    });
    expect(configure(`${small} --bf16`).training.precision).toBe('bf16');
  });
});

describe('warm-up that leaves no step with the full learning rate', () => {
  const listNotices = (flags: string) =>
    configure(withFlags(flags)).notices.filter((notice) => notice.includes('learning rate'));

  it.each([
    // as in Megatron-LM, the first step has the initial rate of the warm-up, here 0
    [
      '--train-iters 1 --lr-warmup-fraction 0.01',
      /--lr 0.001: the largest is 0, because warm-up takes 0.01 of 1 steps/,
    ],
    ['--train-iters 2 --lr-warmup-fraction 0.01', /the largest is 0.0005051, because/],
    [
      '--no-train-iters --train-samples 4 --lr-warmup-samples 6 --lr-decay-samples 8',
      /the largest is 0.0003333, because warm-up takes 3 of 4 steps/,
    ],
  ])('is said: %s', (flags, expected) => {
    expect(listNotices(flags).join()).toMatch(expected);
  });

  it.each([
    '--train-iters 1',
    '--train-iters 100 --lr-warmup-fraction 0.015',
    '--train-iters 3 --lr-warmup-iters 1',
  ])('is not said where there is one: %s', (flags) => {
    expect(listNotices(flags)).toEqual([]);
  });
});

describe('the learning rates of word embedding and output layer', () => {
  const configureDecoupled = (flags: string) =>
    configure(`${small} ${flags}`).optimizer.decoupledLearningRate;

  it('are the same as for all other parameters unless --decoupled-lr is given', () => {
    expect(configureDecoupled('')).toBeUndefined();
    expect(configureDecoupled('--decoupled-lr 5.0e-4 --decoupled-min-lr 4.5e-5')).toEqual({
      maxLearningRate: 5e-4,
      minLearningRate: 4.5e-5,
    });
  });

  it('end at --min-lr where --decoupled-min-lr is missing', () => {
    const rates = { maxLearningRate: 0.02, minLearningRate: 1e-5 };
    expect(configureDecoupled('--min-lr 1e-5 --decoupled-lr 0.02')).toEqual(rates);
    // the decoupled maximum may exceed the main maximum, and the decoupled minimum may be below the main
    // minimum
    expect(configureDecoupled('--min-lr 1e-5 --decoupled-lr 1e-6 --decoupled-min-lr 0')).toEqual({
      maxLearningRate: 1e-6,
      minLearningRate: 0,
    });
  });

  it('have no effect where only adapters are trained', () => {
    const { optimizer, notices } = configure(`${small} --load x --lora-rank 2 --decoupled-lr 5e-4`);
    expect(optimizer.decoupledLearningRate).toBeUndefined();
    expect(notices).toContain(
      '--decoupled-lr has no effect with --lora-rank: embedding and output layer are not trained',
    );
  });
});

refusals(
  [
    [
      '--decoupled-min-lr 1e-5',
      1,
      'MTL_FLAG_NEEDS',
      /the lowest rate of a schedule without a peak; expected --decoupled-lr X/,
    ],
    [
      '--decoupled-lr 1e-5 --decoupled-min-lr 1e-4',
      1,
      'MTL_LEARNING_RATE',
      /--decoupled-min-lr 0.0001 is above --decoupled-lr 0.00001; expected at most 0.00001\n {2}remedy: pass --decoupled-min-lr 0.000001$/,
    ],
    [
      '--min-lr 1e-4 --decoupled-lr 1e-5',
      1,
      'MTL_LEARNING_RATE',
      /--min-lr 0.0001 is above --decoupled-lr 0.00001.*remedy: pass --decoupled-min-lr 0.000001$/s,
    ],
    [
      '--lr-warmup-init 1e-4 --decoupled-lr 1e-5',
      1,
      'MTL_LEARNING_RATE',
      /--lr-warmup-init 0.0001 is above --decoupled-lr 0.00001/,
    ],
    [
      '--lr-warmup-iters 10 --lr-warmup-fraction 0.1',
      1,
      'MTL_FLAG_CONFLICT',
      /warm-up is a share or a number of steps, not both/,
    ],
    [
      '--lr-warmup-samples 10',
      1,
      'MTL_FLAG_NEEDS',
      /does not fit a training run counted in iterations; expected --train-samples/,
    ],
    [
      '--no-train-iters --train-samples 100 --lr-decay-iters 10',
      1,
      'MTL_FLAG_NEEDS',
      /does not fit a training run counted in samples; expected --train-iters/,
    ],
    ['--lr-warmup-iters 100', 1, 'MTL_LEARNING_RATE', /warm-up takes 100 of the 100 steps/],
    ['--lr-decay-iters 10 --lr-warmup-iters 20', 1, 'MTL_LEARNING_RATE', /warm-up takes 20 of the 10 steps/],
    ['--min-lr 1', 1, 'MTL_LEARNING_RATE', /--min-lr 1 is above --lr 0.001/],
    ['--min-lr 0.007 --lr 0.00015', 1, 'MTL_LEARNING_RATE', /remedy: pass --min-lr 0.000015$/],
    ['--lr-warmup-init 1', 1, 'MTL_LEARNING_RATE', /--lr-warmup-init 1 is above/],
    [
      '--lr-decay-style WSD',
      1,
      'MTL_FLAG_NEEDS',
      /does not say how long its last phase is; expected --lr-wsd-decay-iters/,
    ],
    ['--lr-wsd-decay-iters 10', 1, 'MTL_FLAG_NEEDS', /expected --lr-decay-style WSD/],
    [
      '--lr-decay-style WSD --lr-wsd-decay-iters 101',
      1,
      'MTL_LEARNING_RATE',
      /takes 101 steps; expected more than 0 and at most 100/,
    ],
    [
      '--fp16 --min-loss-scale 4 --initial-loss-scale 2',
      1,
      'MTL_LOSS_SCALE',
      /--min-loss-scale 4 is above --initial-loss-scale 2/,
    ],
  ],
  { numAdvised: 6 },
);
