import { findFlagFacts, findSchema, flagFacts } from '@mtl/configuration/flags';
import { describe, expect, expectTypeOf, it } from 'vitest';
import { configureFineTuning } from './configure-fine-tuning.js';
import { type FineTuningOptions, fineTuningFlags } from './fine-tuning-flags.js';

const qqp = { task: 'qqp', dataDir: 'glue', load: 'runs/bert' } as const satisfies FineTuningOptions;

describe('a fine-tuning in options', () => {
  it('has the defaults of its flags, and of the paper for the task', () => {
    expect(configureFineTuning(qqp)).toMatchObject({
      task: 'qqp',
      data: { train: 'glue/train.tsv', valid: ['glue/dev.tsv'], test: [] },
      start: { load: 'runs/bert', scratch: undefined, initialWeights: false },
      // Shoeybi et al. 2019, table 6, for the 336M model on QQP
      globalBatchSize: 128,
      epochs: 12,
      microBatchSize: 8,
      seeds: [1234],
      precision: 'fp32',
      optimizer: { learningRate: 5e-5, decayStyle: 'linear', warmupFraction: 0.065, clipGrad: 1 },
    });
  });

  it('is what its options say, in the types of their flags', () => {
    expectTypeOf<FineTuningOptions['clipGrad']>().toEqualTypeOf<number | undefined>();
    expectTypeOf<FineTuningOptions['task']>().toEqualTypeOf<'mnli' | 'qqp' | 'race' | 'squad' | undefined>();
    const more = { lr: 1e-4, bf16: true, seeds: [1, 2], tensorModelParallelSize: 2, saveHf: 'out' } as const;
    const { optimizer, precision, seeds, parallel, checkpoint, flags } = configureFineTuning({
      ...qqp,
      ...more,
    });
    expect({ lr: optimizer.learningRate, precision, seeds, parallel }).toEqual({
      lr: 1e-4,
      precision: 'bf16',
      seeds: [1, 2],
      parallel: { 'tensor-model-parallel-size': 2 },
    });
    expect(checkpoint.saveHuggingFace).toBe('out');
    expect(flags).toMatchObject({ 'train-data': 'glue/train.tsv', lr: 1e-4, epochs: 12, bf16: true });
    expect(flags).not.toHaveProperty('data-dir');
  });

  it('takes what the flags of training take, where it has these', () => {
    for (const name of ['lr', 'clip-grad', 'micro-batch-size', 'ckpt-step'] as const) {
      expect(flagFacts.get(fineTuningFlags[name])!.kind).toBe(findFlagFacts(name).kind);
      for (const value of [-1, 0, 0.5, 3])
        expect(fineTuningFlags[name].safeParse(value).success).toBe(
          findSchema(name).safeParse(value).success,
        );
    }
  });

  it.each([
    [{ ...qqp, lr: -1 }, 'MTL_FLAG_VALUE', 'lr -1 in the options'],
    [{ ...qqp, clipGradient: 1 }, 'MTL_OPTION', 'clipGradient is no option of a fine-tuning'],
    [{ dataDir: 'glue', load: 'a' }, 'MTL_FLAG_REQUIRED', 'task is missing'],
    [{ load: 'a' }, 'MTL_FLAG_REQUIRED', 'task and dataDir (or trainData and validData) are missing'],
    [{ ...qqp, seeds: [1, 1] }, 'MTL_FLAG_VALUE', 'seeds 1,1 cannot be used'],
    [{ ...qqp, seeds: [] }, 'MTL_FLAG_VALUE', 'seeds  cannot be used'],
    [{ task: 'qqp', load: 'a' }, 'MTL_FLAG_REQUIRED', 'dataDir (or trainData and validData) is missing'],
    [{ ...qqp, numLayers: 2 }, 'MTL_FLAG_CONFLICT', 'load and the sizes of a model from scratch'],
  ])('is refused in the words of options: %j', (options, code, message) => {
    expect(() => configureFineTuning(options as FineTuningOptions)).toThrow(
      expect.objectContaining({ code, message: expect.stringContaining(message) }),
    );
  });
});
