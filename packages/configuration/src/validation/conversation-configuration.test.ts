import { LearningRateSchedule } from '@mtl/optimizer';
import { describe, expect, it } from 'vitest';
import { catchError, small } from '../../test/support/configure.js';
import { parseFlags } from '../command-line/parse-flags.js';
import { configurationJson } from '../saved/saved-configuration.js';
import { validateConfiguration } from './validate-configuration.js';

const base = small.replace(' --data-path bundled', ' --tokenizer-type ByteLevelTokenizer');
const withoutSteps = base.replace(' --train-iters 100', ' --global-batch-size 4');
const configure = (line: string, conversations = { numTrain: 10, numValidation: 3 }) =>
  validateConfiguration(parseFlags(line.split(' ')), { conversations });

describe('conversations', () => {
  it('count the steps by epochs of whole batches, and are all evaluated on after each', () => {
    const { training, data, checkpoint } = configure(
      `${withoutSteps} --train-data a b --validation-fraction 0.1 --epochs 2 --save s`,
    );
    expect(training).toMatchObject({ trainIterations: 6, evalInterval: 3, evalIterations: 1 });
    expect(data).toMatchObject({
      dataPath: [],
      conversations: { trainData: ['a', 'b'], validationFraction: 0.1, long: 'refuse' },
      resetAttentionMask: true,
      resetPositionIds: true,
    });
    expect(checkpoint.saveInterval).toBeUndefined();
  });

  it('count the steps that are left of the epochs, whatever the batches before', () => {
    const epochs = '--epochs 2 --train-data a --validation-fraction 0.1';
    const goingOn = (flags: string, consumedSamples: number): number => {
      const loaded = {
        source: 'checkpoint x',
        vocabularySize: 100,
        start: { iteration: 5, consumedSamples },
      };
      const parsed = {
        ...parseFlags(`${base.replace(' --train-iters 100', '')} ${epochs} ${flags}`.split(' ')),
        loaded,
      };
      const conversations = { numTrain: 64, numValidation: 3 };
      return validateConfiguration(parsed, { conversations }).training.trainIterations;
    };
    expect(goingOn('--global-batch-size 4', 20)).toBe(32);
    // 20 of the 128 samples of 2 epochs are consumed, so 108 remain
    expect(goingOn('--global-batch-size 8', 20)).toBe(5 + 14);
    expect(goingOn('--global-batch-size 2', 20)).toBe(5 + 54);
    expect(goingOn('--global-batch-size 8', 128)).toBe(5);
  });

  it.each([
    // the default warm-up of mtl sft, without flags
    { numTrain: 4, steps: 1, warmupSteps: 0 },
    { numTrain: 12, steps: 3, warmupSteps: 0 },
    { numTrain: 132, steps: 33, warmupSteps: 0 },
    { numTrain: 136, steps: 34, warmupSteps: 1 },
    { numTrain: 800, steps: 200, warmupSteps: 6 },
  ])('are learnt from with the full rate, in $steps steps too', ({ numTrain, steps, warmupSteps }) => {
    const line = `${withoutSteps} --train-data a --epochs 1 --lr 2e-5 --lr-warmup-fraction 0.03`;
    const { training, optimizer, notices } = configure(line, { numTrain, numValidation: 0 });
    expect(training.trainIterations).toBe(steps);
    expect(optimizer.learningRate.warmupSteps).toBe(warmupSteps);
    const schedule = new LearningRateSchedule(optimizer.learningRate);
    const rates = Array.from({ length: steps }, (_, step) => schedule.at(step));
    expect(Math.max(...rates)).toBe(2e-5);
    expect(notices.join()).not.toContain('learning rate');
  });

  it('are evaluated as flags say, and saved at evaluations where the run may end early', () => {
    const { training, checkpoint } = configure(
      `${base} --train-data a --validation-data v --eval-interval 7 --eval-iters 1 --early-stopping-patience 3 --save s`,
    );
    expect(training).toMatchObject({ trainIterations: 100, evalInterval: 7, evalIterations: 1 });
    expect(checkpoint.saveInterval).toBe(7);
  });

  it('are evaluated as flags say that name the defaults of pretraining', () => {
    const { training } = configure(
      `${withoutSteps} --train-data a --validation-data v --epochs 2 --eval-interval 1000 --eval-iters 100`,
      { numTrain: 8000, numValidation: 800 },
    );
    expect(training).toMatchObject({ trainIterations: 4000, evalInterval: 1000, evalIterations: 100 });
  });

  it('save what flags say of evaluations, and not what follows from conversations', () => {
    const line = `${base} --train-data a --validation-data v --eval-iters 100`;
    const { flags } = configurationJson(configure(line, { numTrain: 800, numValidation: 800 }));
    expect(flags).toMatchObject({ 'eval-iters': 100, 'train-iters': 100 });
    expect(flags).not.toHaveProperty('eval-interval');
  });

  it('take a chat template, which the tokenizer keeps', () => {
    const { data } = configure(`${base} --train-data a --chat-template chat.jinja`);
    expect(data.tokenizer).toEqual({ type: 'ByteLevelTokenizer', chatTemplate: 'chat.jinja' });
  });

  it.each([
    [`${small} --train-data a`, 'MTL_FLAG_CONFLICT', '--train-data a and --data-path bundled'],
    [`${base} --data-path bundled --epochs 2`, 'MTL_FLAG_NEEDS', '--epochs 2'],
    [`${base} --data-path bundled --validation-data v`, 'MTL_FLAG_NEEDS', '--validation-data v'],
    [`${base} --train-data a --early-stopping-patience 2`, 'MTL_FLAG_NEEDS', '--early-stopping-patience 2'],
    [
      `${base} --train-data a --validation-data v --validation-fraction 0.1`,
      ...['MTL_FLAG_CONFLICT', '--validation-data v and --validation-fraction 0.1'],
    ],
    [
      `${base} --train-data a --chat-template c --tokenizer-type NullTokenizer --vocab-size 9`,
      ...['MTL_FLAG_NEEDS', '--chat-template c does not belong to a NullTokenizer'],
    ],
    [`${withoutSteps} --data-path bundled --epochs 1`, 'MTL_FLAG_REQUIRED', '--train-iters'],
  ])('are refused: %s', (line, code, text) => {
    const error = catchError(line);
    expect(error.code).toBe(code);
    expect(error.message).toContain(text);
  });

  it('are counted in one way', () => {
    expect(() => configure(`${base} --train-data a --epochs 2`)).toThrow(
      expect.objectContaining({ code: 'MTL_FLAG_CONFLICT' }),
    );
  });
});
