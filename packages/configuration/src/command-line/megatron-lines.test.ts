import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { flagAliases, flagNames } from '../schema/flag-schema.js';
import { validateConfiguration } from '../validation/validate-configuration.js';
import { findMegatronFlag } from './megatron/judge-megatron-flag.js';
import { parseFlags } from './parse-flags.js';

const words = (line: string): readonly string[] => line.split(/\s+/).filter((word) => word !== '');

// command lines of scripts for Megatron-LM, with flags of versions from several years
const gpt = words(`
  --num-layers 96 --hidden-size 12288 --num-attention-heads 96 --seq-length 2048 --max-position-embeddings 2048
  --attention-backend auto --micro-batch-size 1 --global-batch-size 1536 --rampup-batch-size 16 16 5859375
  --train-samples 146484375 --lr-decay-samples 126953125 --lr-warmup-samples 183105 --lr 6.0e-5 --min-lr 6.0e-6
  --lr-decay-style cosine --weight-decay 0.1 --adam-beta1 0.9 --adam-beta2 0.95 --init-method-std 0.006
  --clip-grad 1.0 --fp16 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 16 --recompute-activations
  --attention-dropout 0.1 --hidden-dropout 0.1 --data-path 0.3 a_text_document 0.7 b_text_document
  --vocab-file gpt2-vocab.json --merge-file gpt2-merges.txt --data-impl mmap --split 949,50,1 --data-cache-path c
  --log-interval 100 --save-interval 10000 --eval-interval 1000 --eval-iters 10 --save out --load out
  --tensorboard-dir logs --distributed-backend nccl --use-mcore-models --transformer-impl transformer_engine
  --override-opt_param-scheduler --exit-duration-in-mins 230 --exit-interval 5000 --no-load-optim --finetune
  --DDP-impl local --lazy-mpu-init True --num-workers 2`);

const bert = words(`
  --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 512 --max-position-embeddings 512
  --micro-batch-size 4 --global-batch-size 32 --train-iters 1000000 --weight-decay 1e-2 --clip-grad 1.0 --fp16
  --lr 0.0001 --lr-decay-iters 990000 --lr-decay-style linear --min-lr 1.0e-5 --weight-decay 1e-2
  --lr-warmup-fraction .01 --clip-grad 1.0 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 2
  --data-path pages_text_sentence --vocab-file bert-vocab.txt --split 949,50,1 --log-interval 100
  --save-interval 10000 --eval-interval 1000 --save out --load out --eval-iters 10 --tensorboard-dir logs`);

it("reads a GPT's command line of Megatron-LM with the same meaning, and says what it leaves out", () => {
  const configuration = validateConfiguration(parseFlags(gpt), { worldSize: 128 });
  expect(configuration).toMatchObject({
    training: {
      rampup: { start: 16, increment: 16, samples: 5_859_375 },
      trainSamples: 146_484_375,
      precision: 'fp16',
      recompute: { granularity: 'selective' },
      exitInterval: 5000,
      exitDurationMinutes: 230,
    },
    optimizer: {
      learningRate: { unit: 'samples', warmupSteps: 183_105, decaySteps: 126_953_125 },
      adamBeta2: 0.95,
    },
    data: {
      dataPath: ['0.3', 'a_text_document', '0.7', 'b_text_document'],
      tokenizer: { type: 'GPT2BPETokenizer', vocabFile: 'gpt2-vocab.json', mergeFile: 'gpt2-merges.txt' },
    },
    checkpoint: { save: 'out', load: 'out', loadOptimizer: false, finetune: true },
  });
  const said = configuration.notices.map((notice) => /^--\S+/.exec(notice)?.[0] ?? notice);
  expect(said).toEqual([
    '--attention-backend',
    '--data-impl',
    '--use-mcore-models',
    '--transformer-impl',
    '--DDP-impl',
    '--lazy-mpu-init',
    '--num-workers',
    expect.stringMatching(/tokenizer/),
  ]);
});

it("reads a BERT's, two flags given twice included, over Megatron-LM's defaults", () => {
  const flags = parseFlags(bert, { model: 'bert' });
  expect(validateConfiguration(flags, { worldSize: 16 })).toMatchObject({
    optimizer: { weightDecay: 0.01, clipGrad: 1 },
    data: { tokenizer: { type: 'BertWordPieceLowerCase', vocabFile: 'bert-vocab.txt' } },
  });
  expect(flags.notices).toEqual([
    'given more than once on the command line, the last one counts: --weight-decay 1e-2, --clip-grad 1.0',
  ]);
  // no preset is used, so other flags have Megatron-LM's defaults
  expect(flags).toMatchObject({
    preset: 'none',
    values: {
      'layer-norm-placement': 'pre',
      'attention-dropout': 0.1,
      'hidden-dropout': 0.1,
      'adam-beta2': 0.999,
      'eval-interval': 1000,
      seed: 1234,
    },
  });
});

it.each([
  ['--recompute-activations', 'recompute-granularity', 'selective'],
  ['--recompute_activations --recompute-granularity selective', 'recompute-granularity', 'selective'],
  ['--openai-gelu', 'gelu', 'tanh'],
  ['--layernorm-epsilon 1e-6', 'norm-epsilon', 1e-6],
  ['--model-parallel-size=2', 'tensor-model-parallel-size', 2],
] as const)('knows %s', (line, name, value) => {
  expect(parseFlags(words(line)).values[name]).toBe(value);
});

it.each(['--fp8', '--fp8 hybrid', '--fp8-format e4m3'])(
  'refuses %s without naming another flag of eight bits',
  (line) => {
    expect(() => parseFlags(words(line))).toThrow(
      expect.objectContaining({
        code: 'MTL_FLAG_UNSUPPORTED',
        remedy: 'use --bf16',
        expected: undefined,
      }) as Error,
    );
  },
);

it('knows other names in files too', () => {
  const directory = mkdtempSync(join(tmpdir(), 'mtl-config-'));
  const read = (text: string) => {
    const path = join(directory, 'run.yaml');
    writeFileSync(path, text);
    return parseFlags(['--config', path]).values;
  };
  expect(read('recompute_activations: true\nlayernorm_epsilon: 1e-6')).toMatchObject({
    'recompute-granularity': 'selective',
    'norm-epsilon': 1e-6,
  });
  expect(read('recompute-activations: false')['recompute-granularity']).toBeUndefined();
  expect(() => read('recompute-activations: full')).toThrow(/recompute-activations in .* is "full"/);
  expect(() => read('recompute-activations: true\nrecompute-granularity: full')).toThrow(/is given twice/);
  rmSync(directory, { recursive: true });
});

it('has no other name for what is a flag, or known to be of no use', () => {
  for (const [name, { flag }] of Object.entries(flagAliases)) {
    expect(flagNames).not.toContain(name);
    expect(flagNames).toContain(flag);
    expect(findMegatronFlag(name)).toBeUndefined();
  }
});

it.each([
  ['(128,0)', '128,0'],
  ['(128, 0)', '128,0'],
  ['128,0', '128,0'],
  ['-1,0', undefined],
  ['(-1,0)', undefined],
])('reads --window-size %s as %s', (text, window) => {
  const flags = parseFlags([...gpt, '--window-size', '4,0', '--window-size', text]);
  expect(validateConfiguration(flags, { worldSize: 128 }).model.windowSize).toBe(window);
});

it('lets a command line leave out the window of a file', () => {
  const directory = mkdtempSync(join(tmpdir(), 'mtl-window-'));
  try {
    const file = join(directory, 'run.yaml');
    writeFileSync(file, 'window-size: "(128, 0)"');
    const readWindow = (...more: string[]): unknown =>
      parseFlags(['--config', file, ...more]).values['window-size'];
    expect(readWindow()).toBe('128,0');
    expect(readWindow('--window-size', '-1,0')).toBeUndefined();
  } finally {
    rmSync(directory, { recursive: true });
  }
});

it.each([
  '--position-embedding-type rope',
  '--position-embedding-type yarn',
  '--use-rotary-position-embeddings',
  '--position-embedding-type none',
])('reads --no-position-embedding next to %s', (flag) => {
  const flags = parseFlags([...words(`--no-position-embedding ${flag}`), ...gpt]);
  expect(flags.notices).toContainEqual(expect.stringMatching(/^--no-position-embedding .* has no effect/));
});

it('refuses --no-position-embedding where positions have embeddings', () => {
  for (const line of ['', '--position-embedding-type learned_absolute']) {
    expect(() => parseFlags([...words(`${line} --no-position-embedding`), ...gpt])).toThrow(
      expect.objectContaining({
        code: 'MTL_FLAG_UNSUPPORTED',
        remedy: 'pass --position-embedding-type rope, yarn or none, or leave it out',
      }),
    );
  }
});
