import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { formatError, type MtlError } from '@mtl/errors';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { nearestDivisors, nearestMultiples } from './configuration/nearest-values.js';
import { configurationJson } from './configuration-json.js';
import { parseFlags } from './flags/parse-flags.js';
import type { GptConfiguration } from './gpt-configuration.js';
import { printConfiguration } from './print-configuration.js';
import { validateConfiguration } from './validate-configuration.js';

function configure(line: string, worldSize = 1): GptConfiguration {
  return validateConfiguration(parseFlags(line.split(' ').filter((word) => word !== '')), { worldSize });
}

function errorOf(line: string, worldSize = 1): MtlError {
  try {
    configure(line, worldSize);
  } catch (error) {
    expect(error).toMatchObject({ exitCode: 2 });
    return error as MtlError;
  }
  throw new Error(`no error for ${line}`);
}

/** A preset-free line on which everything else is right. */
const small =
  '--preset none --num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --micro-batch-size 2 --train-iters 100 --lr 1e-3';

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
    expect(checkpoint).toEqual({ loadOptimizer: true, loadRng: true, finetune: false });
    expect(logging).toEqual({ logInterval: 100 });
  });

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

  it('describes interleaved stages', () => {
    const { parallel } = configure(
      `${small} --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1 --global-batch-size 4`,
      2,
    );
    expect(parallel).toMatchObject({ numVirtualStages: 2, pipelineSchedule: 'interleaved' });
  });

  it.each<[string, unknown]>([
    ['', 'even'],
    ['--num-layers 7', 'balanced'],
    ['--pipeline-model-parallel-layout balanced', 'balanced'],
    ['--pipeline-model-parallel-layout Ettt|tL', [3, 1]],
    [
      '--num-layers 8 --num-virtual-stages-per-pipeline-rank 2 --pipeline-model-parallel-layout Et,(t|)*2tt|t*3L',
      [2, 1, 2, 3],
    ],
    ['--decoder-last-pipeline-num-layers 1', [3, 1]],
    ['--decoder-first-pipeline-num-layers 1 --decoder-last-pipeline-num-layers 3', [1, 3]],
  ])('deals layers out to stages: %s', (flags, layout) => {
    const line = withFlags(`--pipeline-model-parallel-size 2 --global-batch-size 8 ${flags}`);
    expect(configure(line, 2).parallel.layerLayout).toEqual(layout);
  });

  it.each<[string, object]>([
    ['zb-v', { numVirtualStages: 2 }],
    ['breadth-first', { numVirtualStages: 1 }],
    ['breadth-first --num-virtual-stages-per-pipeline-rank 2', { numVirtualStages: 2 }],
    [
      'interleaved --num-virtual-stages-per-pipeline-rank 2 --microbatch-group-size-per-virtual-pipeline-stage 4',
      { numVirtualStages: 2, microBatchGroupSize: 4 },
    ],
  ])('knows the chunks of a schedule: %s', (flags, expected) => {
    const line = withFlags(
      `--pipeline-model-parallel-size 2 --global-batch-size 8 --pipeline-schedule ${flags}`,
    );
    expect(configure(line, 2).parallel).toMatchObject(expected);
  });

  it.each<[string, object]>([
    ['--tokenizer-type GPT2BPETokenizer', { type: 'GPT2BPETokenizer' }],
    [
      '--tokenizer-type GPT2BPETokenizer --vocab-file v.json --merge-file m.txt',
      { type: 'GPT2BPETokenizer', vocabFile: 'v.json', mergeFile: 'm.txt' },
    ],
    [
      '--tokenizer-type HuggingFaceTokenizer --tokenizer-model t.json',
      { type: 'HuggingFaceTokenizer', tokenizerModel: 't.json' },
    ],
    ['--tokenizer-type NullTokenizer --vocab-size 100', { type: 'NullTokenizer', vocabSize: 100 }],
    [
      '--tokenizer-type BertWordPieceCase --vocab-file v.txt',
      { type: 'BertWordPieceCase', vocabFile: 'v.txt' },
    ],
  ])('describes the tokenizer of %s', (line, tokenizer) => {
    expect(configure(`${small} ${line}`).data.tokenizer).toEqual(tokenizer);
  });

  it('starts optimizer and random state afresh when fine-tuning', () => {
    expect(configure(`${small} --load x --finetune`).checkpoint).toMatchObject({
      loadOptimizer: false,
      loadRng: false,
    });
    expect(configure(`${small} --load x --no-load-rng`).checkpoint).toMatchObject({
      loadOptimizer: true,
      loadRng: false,
    });
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

  it('is silent about evaluation that nobody wants', () => {
    expect(configure(`${small} --split 1 --eval-iters 0`).notices).toEqual([]);
  });
});

/** Flags appended to `small`, processes, code, and what the error says. */
const contradictions: ReadonlyArray<readonly [line: string, worldSize: number, code: string, text: RegExp]> =
  [
    [
      '--num-attention-heads 5',
      1,
      'MTL_HEADS',
      /5 does not divide --hidden-size 64; expected 4 or 8 heads, or a hidden size of 60 or 65/,
    ],
    [
      '--max-position-embeddings 16',
      1,
      'MTL_SEQUENCE_LENGTH',
      /--seq-length 32 is longer than --max-position-embeddings 16/,
    ],
    [
      '--tensor-model-parallel-size 3',
      3,
      'MTL_TENSOR_PARALLEL_SIZE',
      /3 does not divide --num-attention-heads 4; expected 2 or 4/,
    ],
    [
      '--tensor-model-parallel-size 4 --ffn-hidden-size 102',
      4,
      'MTL_TENSOR_PARALLEL_SIZE',
      /--ffn-hidden-size 102; expected 2/,
    ],
    [
      '--tensor-model-parallel-size 4 --make-vocab-size-divisible-by 2',
      4,
      'MTL_TENSOR_PARALLEL_SIZE',
      /--make-vocab-size-divisible-by 2; expected 2/,
    ],
    [
      '--tensor-model-parallel-size 4 --sequence-parallel --seq-length 30',
      4,
      'MTL_TENSOR_PARALLEL_SIZE',
      /--seq-length 30; expected 2/,
    ],
    [
      '--pipeline-model-parallel-size 5',
      5,
      'MTL_PIPELINE_LAYERS',
      /4 layers cannot be cut into 5 pieces; expected at most 4 pieces/,
    ],
    [
      '--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Ett|tttL',
      2,
      'MTL_PIPELINE_LAYERS',
      /pieces of 2, 3 layers.*expected 2 numbers of 1 or more whose sum is 4/,
    ],
    [
      '--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Ettt|tmL',
      2,
      'MTL_PIPELINE_LAYERS',
      /layout Ettt\|tmL: "m" is no part of a GPT; expected even, balanced, or stages/,
    ],
    [
      '--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout E|ttttL',
      2,
      'MTL_PIPELINE_LAYERS',
      /stage 1 has no layer/,
    ],
    [
      '--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout even --decoder-last-pipeline-num-layers 1',
      2,
      'MTL_FLAG_CONFLICT',
      /both say how many layers a stage has/,
    ],
    [
      '--pipeline-model-parallel-size 3 --decoder-last-pipeline-num-layers 1',
      3,
      'MTL_PIPELINE_LAYERS',
      /3 of 4 layers are left for 2 other stages; expected a multiple of 2/,
    ],
    [
      '--pipeline-model-parallel-size 2 --pipeline-schedule zb-v --decoder-first-pipeline-num-layers 1',
      2,
      'MTL_FLAG_NEEDS',
      /expected --pipeline-model-parallel-layout/,
    ],
    [
      '--pipeline-model-parallel-size 2 --pipeline-schedule zb-h',
      2,
      'MTL_SCHEDULE_NAME',
      /no schedule zb-h; expected one of gpipe.*\n.*did you mean zb-h1/,
    ],
    [
      '--pipeline-model-parallel-size 2 --pipeline-schedule none/such.csv',
      2,
      'MTL_SCHEDULE_CSV',
      /--pipeline-schedule none\/such.csv: ENOENT.*expected a schedule file/,
    ],
    [
      '--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 --num-layers-per-virtual-pipeline-stage 1',
      2,
      'MTL_FLAG_CONFLICT',
      /both say how many chunks/,
    ],
    [
      '--pipeline-model-parallel-size 3 --num-layers-per-virtual-pipeline-stage 1',
      3,
      'MTL_PIPELINE_SIZE',
      /3 stages do not divide --num-layers 4; expected.*\n.*--num-virtual-stages-per-pipeline-rank/,
    ],
    [
      '--pipeline-model-parallel-size 2 --microbatch-group-size-per-virtual-pipeline-stage 2 --global-batch-size 8',
      2,
      'MTL_SCHEDULE_GROUP_SIZE',
      /1f1b has no micro-batch groups/,
    ],
    [
      '--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 --global-batch-size 16 --rampup-batch-size 2 2 100 --no-train-iters --train-samples 1000',
      2,
      'MTL_SCHEDULE_MICRO_BATCHES',
      /interleaved: 1 micro-batches in groups of 2/,
    ],
    [
      '--pipeline-model-parallel-size 2 --num-layers 12 --num-layers-per-virtual-pipeline-stage 4',
      2,
      'MTL_PIPELINE_SIZE',
      /4 does not divide the 6 layers of a stage; expected 3 or 6/,
    ],
    [
      '--num-layers-per-virtual-pipeline-stage 1',
      1,
      'MTL_FLAG_NEEDS',
      /has no pipeline to interleave; expected --pipeline-model-parallel-size of 2/,
    ],
    [
      '--pipeline-schedule interleaved --pipeline-model-parallel-size 2',
      2,
      'MTL_FLAG_NEEDS',
      /needs several chunks/,
    ],
    [
      '--pipeline-schedule 1f1b --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1',
      2,
      'MTL_SCHEDULE_CHUNKS',
      /1f1b: a rank cannot hold 2 chunks/,
    ],
    [
      '--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1',
      2,
      'MTL_SCHEDULE_MICRO_BATCHES',
      /interleaved: 1 micro-batches in groups of 2 do not fill one group, on 2 stages; expected 2/,
    ],
    [
      '--tensor-model-parallel-size 2',
      1,
      'MTL_WORLD_SIZE',
      /1 process is running, but tensor x pipeline parallelism is 2 x 1 = 2; expected a multiple of 2 processes\n.*npx mtl run --nproc-per-node 2, or choose smaller sizes/,
    ],
    [
      '--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2',
      6,
      'MTL_WORLD_SIZE',
      /6 processes are running.*2 x 2 = 4.*\n.*npx mtl run --nproc-per-node 4, or choose smaller sizes/,
    ],
    ['--overlap-param-gather', 1, 'MTL_FLAG_NEEDS', /expected --use-distributed-optimizer/],
    ['--profile-trace a.json', 1, 'MTL_FLAG_NEEDS', /expected --profile-steps FIRST LAST/],
    ['--train-iters 9 --profile-steps 5 4', 1, 'MTL_PROFILE_STEPS', /pass --profile-steps 4 5/],
    ['--train-iters 9 --profile-steps 8 10', 1, 'MTL_PROFILE_STEPS', /pass --profile-steps 8 9/],
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
    ['--no-train-iters', 1, 'MTL_FLAG_REQUIRED', /--train-iters is missing/],
    ['--bf16 --fp16', 1, 'MTL_FLAG_CONFLICT', /--bf16 and --fp16: there is one precision/],
    ['--recompute-granularity full', 1, 'MTL_FLAG_NEEDS', /expected --recompute-method uniform or block/],
    [
      '--recompute-method block',
      1,
      'MTL_FLAG_NEEDS',
      /--recompute-method block says how whole layers .*; expected --recompute-granularity full/,
    ],
    [
      '--recompute-granularity selective --recompute-num-layers 1',
      1,
      'MTL_FLAG_NEEDS',
      /--recompute-num-layers 1 says how/,
    ],
    [
      '--recompute-granularity full --recompute-method block --recompute-num-layers 5',
      1,
      'MTL_RECOMPUTE',
      /5 is more than the 4 layers that lie together; expected 1 to 4/,
    ],
    [
      '--recompute-granularity full --recompute-method block --recompute-num-layers 3 --pipeline-model-parallel-size 2',
      2,
      'MTL_RECOMPUTE',
      /3 is more than the 2 layers/,
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
      /does not fit a training counted in iterations; expected --train-samples/,
    ],
    [
      '--no-train-iters --train-samples 100 --lr-decay-iters 10',
      1,
      'MTL_FLAG_NEEDS',
      /does not fit a training counted in samples; expected --train-iters/,
    ],
    ['--lr-warmup-iters 100', 1, 'MTL_LEARNING_RATE', /warm-up takes 100 of the 100 steps/],
    ['--lr-decay-iters 10 --lr-warmup-iters 20', 1, 'MTL_LEARNING_RATE', /warm-up takes 20 of the 10 steps/],
    ['--min-lr 1', 1, 'MTL_LEARNING_RATE', /--min-lr 1 is above --lr 0.001/],
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
    ['--split 0,1,1', 1, 'MTL_SPLIT', /--split 0,1,1 gives training nothing/],
    ['--split 1,2,3,4', 1, 'MTL_SPLIT', /has 4 weights/],
    ['--split most', 1, 'MTL_SPLIT', /--split most is not a list of weights/],
    ['--split 9,-1', 1, 'MTL_SPLIT', /is not a list of weights/],
    [
      '--tokenizer-type HuggingFaceTokenizer',
      1,
      'MTL_FLAG_NEEDS',
      /does not say which tokens there are; expected --tokenizer-model/,
    ],
    ['--tokenizer-type NullTokenizer', 1, 'MTL_FLAG_NEEDS', /expected --vocab-size N/],
    ['--tokenizer-type BertWordPieceCase', 1, 'MTL_FLAG_NEEDS', /expected --vocab-file vocab.txt/],
    [
      '--tokenizer-type GPT2BPETokenizer --vocab-file v.json',
      1,
      'MTL_FLAG_NEEDS',
      /has no merges; expected --merge-file/,
    ],
    [
      '--tokenizer-type GPT2BPETokenizer --merge-file m.txt',
      1,
      'MTL_FLAG_NEEDS',
      /has no vocabulary; expected --vocab-file/,
    ],
    [
      '--tokenizer-type ByteLevelTokenizer --vocab-size 9',
      1,
      'MTL_FLAG_NEEDS',
      /does not belong to a ByteLevelTokenizer; expected --tokenizer-type NullTokenizer/,
    ],
    [
      '--vocab-size 9',
      1,
      'MTL_FLAG_NEEDS',
      /--vocab-size 9 needs a tokenizer; expected --tokenizer-type NullTokenizer/,
    ],
    [
      '--save-interval 5',
      1,
      'MTL_FLAG_NEEDS',
      /--save-interval 5 has nowhere to save to; expected --save DIR/,
    ],
    ['--keep-last 5', 1, 'MTL_FLAG_NEEDS', /expected --save DIR/],
    ['--finetune', 1, 'MTL_FLAG_NEEDS', /--finetune has nothing to load; expected --load DIR/],
    ['--ckpt-step 5', 1, 'MTL_FLAG_NEEDS', /expected --load DIR/],
    ['--no-load-optim', 1, 'MTL_FLAG_NEEDS', /expected --load DIR/],
    ['--load a --load-hf b', 1, 'MTL_FLAG_CONFLICT', /--load a and --load-hf b: weights come from one place/],
  ];

/** Appended flags replace those of `small`; `--no-train-iters` takes that one away. */
function withFlags(line: string): string {
  const removed = [...line.matchAll(/--(?:no-)?([a-z0-9-]+)/g)].map((match) => match[1]!);
  const base = removed.reduce((text, name) => text.replace(new RegExp(` --${name} \\S+`), ''), small);
  const kept = line.includes('--train-samples') && !line.includes('--no-train-iters') ? small : base;
  return `${kept} ${line.replace('--no-train-iters', '')}`;
}

describe('flags that cannot work together', () => {
  it.each(contradictions)('are refused: %s with %d processes', (line, worldSize, code, text) => {
    const error = errorOf(withFlags(line), worldSize);
    expect(error.code).toBe(code);
    expect(formatError(error)).toMatch(text);
    expect(error.remedy ?? error.expected).toBeDefined();
  });

  const advised = contradictions.filter(([line, worldSize]) =>
    /^pass --\S+ [\d.]+/.test(errorOf(withFlags(line), worldSize).remedy ?? ''),
  );

  it.each(advised)('are mended by taking the advice: %s with %d processes', (line, worldSize, code) => {
    const remedy = errorOf(withFlags(line), worldSize).remedy!;
    const [, name, value] = /^pass --(\S+) ([\d.]+(?: [\d.]+)*)/.exec(remedy)!;
    const mended = `${withFlags(line).replace(new RegExp(` --${name}(?: [^-\\s]\\S*)+`), '')} --${name} ${value}`;
    let next: string | undefined;
    try {
      configure(mended, worldSize);
    } catch (error) {
      next = (error as MtlError).code;
    }
    expect([code, 'MTL_FLAG_ARGUMENT', 'MTL_FLAG_VALUE']).not.toContain(next);
  });

  it('has such advice for a good part of them', () => {
    expect(advised.length).toBeGreaterThan(10);
  });

  it('do not make a preset an error that says when to save, for those who save nothing', () => {
    const parsed = parseFlags([]);
    const resolved = (source: string) => ({
      ...parsed,
      values: { ...parsed.values, 'save-interval': 5 },
      sources: new Map([...parsed.sources, ['save-interval', source]] as const),
    });
    expect(() => validateConfiguration(resolved('preset default'))).not.toThrow();
    expect(() => validateConfiguration(resolved('run.yaml'))).toThrow(/nowhere to save/);
  });

  it('names the file or preset that a value comes from', () => {
    const message = errorOf('--preset gpt2-124m --num-attention-heads 7').message;
    expect(message).toBe('--num-attention-heads 7 does not divide --hidden-size 768 (preset gpt2-124m)');
  });
});

describe('nearest values', () => {
  it('really divide, and enclose what was asked for', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 5000 }), fc.integer({ min: 1, max: 6000 }), (total, value) => {
        const divisors = nearestDivisors(total, value);
        expect(divisors.length).toBeGreaterThan(0);
        for (const divisor of divisors) expect(total % divisor).toBe(0);
        const between = (low: number, high: number): number =>
          Array.from({ length: Math.max(0, high - low - 1) }, (_, i) => low + 1 + i).filter(
            (n) => total % n === 0,
          ).length;
        if (divisors.length === 2) expect(between(divisors[0]!, divisors[1]!)).toBe(0);
        for (const multiple of nearestMultiples(value, total)) {
          expect(multiple % value).toBe(0);
          expect(Math.abs(multiple - total)).toBeLessThan(value);
        }
      }),
    );
  });
});

describe('printConfiguration', () => {
  it('shows every flag with its source, what follows, and what has no effect', () => {
    const text = printConfiguration(
      configure('--preset gpt2-124m --global-batch-size 8 --bf16 --use-flash-attn'),
    );
    expect(text).toMatch(/^configuration \(preset gpt2-124m\)\n {2}Model\n/);
    expect(text).toMatch(/^ {4}num-layers +12 +preset gpt2-124m$/m);
    expect(text).toMatch(/^ {4}global-batch-size +8 +command line$/m);
    expect(text).toMatch(/^ {4}adam-beta2 +0.999 +default$/m);
    expect(text).toMatch(/^ {4}save +-$/m);
    expect(text).toMatch(/^ {4}initial-loss-scale +2\^32 +default$/m);
    expect(text).toMatch(/^ {4}global batch size +8 = 8192 tokens$/m);
    expect(text).toMatch(/^ {4}processes +1 = tensor 1 x pipeline 1 x data 1$/m);
    expect(text).toMatch(/ {2}note: --use-flash-attn on the command line has no effect/);
  });

  it('can leave out what nobody set', () => {
    const text = printConfiguration(configure('--preset gpt2-124m --bf16'), { all: false });
    expect(text).toMatch(/^ {4}num-layers +12 +preset gpt2-124m$/m);
    expect(text).toMatch(/^ {4}bf16 +true +command line$/m);
    expect(text).not.toMatch(/ default$/m);
  });
});

describe('configurationJson', () => {
  it('is plain data from which --config makes the same configuration again', () => {
    const directory = mkdtempSync(join(tmpdir(), 'mtl-configuration-'));
    try {
      for (const line of [`${small} --bf16`, '--preset gpt2-355m --train-samples 5120', '--train-iters 7']) {
        const first = configure(line);
        const path = join(directory, 'configuration.json');
        writeFileSync(path, JSON.stringify(configurationJson(first)));
        const again = configure(`--config ${path}`);
        expect(configurationJson(again).resolved).toEqual(configurationJson(first).resolved);
        expect(again.flags).toEqual(first.flags);
      }
    } finally {
      rmSync(directory, { recursive: true });
    }
  });
});
