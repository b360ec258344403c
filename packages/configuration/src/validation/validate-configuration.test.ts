import { describe, expect, it } from 'vitest';
import { catchError, configure, small } from '../../test/support/configure.js';
import { refusals } from '../../test/support/refusals.js';
import { parseFlags } from '../command-line/parse-flags.js';
import { validateConfiguration } from './validate-configuration.js';

describe('validateConfiguration', () => {
  it.each([
    [16, 64],
    [24, 64],
    [96, 256],
    [768, 2048],
  ])('gives gated networks of a hidden size of %i a width by default', (hiddenSize, ffnHiddenSize) => {
    const words = ['--hidden-size', `${hiddenSize}`, '--num-attention-heads', '2', '--swiglu'];
    const { model } = validateConfiguration(parseFlags(['--preset', 'char-10m', ...words]));
    expect(model).toMatchObject({ ffnHiddenSize });
  });

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
      logMaxAttentionLogit: false,
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
    const message = catchError('--preset gpt2-124m --num-attention-heads 7').message;
    expect(message).toBe('--num-attention-heads 7 does not divide --hidden-size 768 (preset gpt2-124m)');
  });
});

describe('the size of a model', () => {
  it('leaves alone what some machine could hold', () => {
    // the largest announced model is rejected on one process
    const line =
      '--num-layers 128 --hidden-size 25600 --num-attention-heads 160 --seq-length 2048 --max-position-embeddings 2048';
    expect(() =>
      configure(`--preset none ${line} --micro-batch-size 1 --train-iters 1 --lr 1 --data-path bundled`),
    ).not.toThrow();
    // a larger model is accepted if it is sharded over enough processes
    const processes = '--tensor-model-parallel-size 8 --pipeline-model-parallel-size 8';
    const large = small.replace('--hidden-size 64', '--hidden-size 500000').replace('heads 4', 'heads 8');
    const larger = large.replace('--num-layers 4', '--num-layers 64');
    expect(() => configure(`${larger} ${processes}`, 64)).not.toThrow();
    expect(() => configure(larger)).toThrow(
      /num-layers 64, --hidden-size 500000: the layers would take 3\.1e\+15/,
    );
  });

  it('counts experts where layers have them, and as they are spread', () => {
    const line = `${small} --num-experts 8000000000 --disable-bias-linear --global-batch-size 8`;
    const spread = (layers: string) => () => configure(`${line} --moe-layer-freq ${layers}`, 4);
    expect(spread('1')).toThrow(/--num-experts 8000000000.*: the experts would take 1\.7e\+16 bytes/);
    expect(spread('4')).toThrow(/the experts would take 4\.2e\+15 bytes/);
    expect(spread('[0,0,0,1]')).toThrow(/the experts would take 4\.2e\+15 bytes/);
    expect(spread('4 --expert-model-parallel-size 4')).toThrow(/the experts would take 1\.0e\+15 bytes/);
    expect(spread('4 --expert-tensor-parallel-size 2')).toThrow(/the experts would take 2\.1e\+15 bytes/);
    // a hidden size that no layer uses needs no memory
    const wide = '--num-experts 8 --ffn-hidden-size 100000000000 --moe-ffn-hidden-size 64';
    expect(() => configure(`${small} ${wide}`)).not.toThrow();
  });
});

refusals(
  [
    [
      '--hidden-size 4000000000',
      1,
      'MTL_TOO_LARGE',
      /--num-layers 4, --hidden-size 4000000000: the layers would take .* bytes of a process; expected at most 1\.4e\+14/,
    ],
    [
      '--num-layers 10000000000',
      1,
      'MTL_TOO_LARGE',
      /--num-layers 10000000000, --hidden-size 64: the layers/,
    ],
    ['--ffn-hidden-size 100000000000', 1, 'MTL_TOO_LARGE', /--ffn-hidden-size 100000000000: the layers/],
    [
      '--max-position-embeddings 10000000000000',
      1,
      'MTL_TOO_LARGE',
      /--max-position-embeddings 10000000000000, .*the position embeddings/,
    ],
    ['--make-vocab-size-divisible-by 1000000000000', 1, 'MTL_TOO_LARGE', /the token embeddings/],
    [
      '--micro-batch-size 1000000000000',
      1,
      'MTL_TOO_LARGE',
      /--micro-batch-size 1000000000000, --seq-length 32, .*the activations of a micro-batch/,
    ],
  ],
  { numAdvised: 0 },
);
