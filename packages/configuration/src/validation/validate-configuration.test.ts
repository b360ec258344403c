import { describe, expect, it } from 'vitest';
import { configure, errorOf, small } from '../../test/support/configure.js';
import { parseFlags } from '../command-line/parse-flags.js';
import { validateConfiguration } from './validate-configuration.js';

describe('validateConfiguration', () => {
  it('fills in what follows from other flags', () => {
    const { model, training, optimizer, data, parallel, checkpoint, logging } = configure(small);
    expect(model).toMatchObject({ ffnHiddenSize: 256, headSize: 16, maxPositionEmbeddings: 32 });
    expect(training).toMatchObject({
      globalBatchSize: 2,
      numMicroBatches: 1,
      precision: 'fp32',
      trainIterations: 100,
    });
    expect(training.recompute).toEqual({ granularity: 'none' });
    expect(optimizer.learningRate).toMatchObject({ unit: 'iterations', warmupSteps: 0, decaySteps: 100 });
    expect(optimizer.lossScale).toEqual({ kind: 'constant', scale: 1 });
    expect(data).toMatchObject({ dataPath: [], split: '969,30,1' });
    expect(data.tokenizer).toBeUndefined();
    expect(parallel).toMatchObject({ dataParallelSize: 1, numVirtualStages: 1, pipelineSchedule: '1f1b' });
    expect(checkpoint).toEqual({
      asyncSave: false,
      loadOptimizer: true,
      loadRng: true,
      finetune: false,
      schedule: 'same',
    });
    expect(logging).toEqual({
      logInterval: 100,
      isVerbose: false,
      comparesWithPlan: false,
      samplesAtEvaluations: true,
    });
  });

  it('freezes everything', () => {
    const configuration = configure('');
    const check = (value: unknown): void => {
      if (typeof value !== 'object' || value === null || value instanceof Map) return;
      expect(Object.isFrozen(value)).toBe(true);
      Object.values(value).forEach(check);
    };
    check(configuration);
  });

  it.each([
    ['--pipeline-schedule gpipe', '--pipeline-schedule has no effect with --pipeline-model-parallel-size 1'],
    ['--sequence-parallel', '--sequence-parallel has no effect with --tensor-model-parallel-size 1'],
    ['--use-distributed-optimizer', '--use-distributed-optimizer has no effect with one data-parallel rank'],
    ['--split 1', '--split 1 keeps nothing for validation: there will be no evaluation'],
    [
      '--bf16 --initial-loss-scale 65536',
      '--initial-loss-scale has no effect in bf16: the loss scale is not dynamic',
    ],
    ['--fp16 --loss-scale 8 --hysteresis 3', '--hysteresis has no effect with a constant --loss-scale'],
    ['--use-flash-attn', '--use-flash-attn on the command line has no effect'],
  ])('says what makes no difference: %s', (line, notice) => {
    expect(configure(`${small} ${line}`).notices).toEqual([expect.stringContaining(notice)]);
  });

  it('says of every overlap on one data-parallel rank that it makes no difference', () => {
    const flags = '--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather';
    const names = flags.split(' ');
    expect(configure(`${small} ${flags}`).notices).toEqual(
      names.map((name) => `${name} has no effect with one data-parallel rank`),
    );
  });

  it('is silent about evaluation that is turned off', () => {
    expect(configure(`${small} --split 1 --eval-iters 0`).notices).toEqual([]);
  });
});

describe('an error about flags', () => {
  it('does not come of a preset that says when to save, for those who save nothing', () => {
    const parsed = parseFlags([]);
    const values = { ...parsed.values, 'save-interval': 5 };
    expect(() => validateConfiguration({ ...parsed, values })).not.toThrow();
    const given = new Set(['save-interval'] as const);
    expect(() => validateConfiguration({ ...parsed, values, given })).toThrow(/nowhere to save/);
  });

  it('names the file or preset that a value comes from', () => {
    const message = errorOf('--preset gpt2-124m --num-attention-heads 7').message;
    expect(message).toBe('--num-attention-heads 7 does not divide --hidden-size 768 (preset gpt2-124m)');
  });
});
