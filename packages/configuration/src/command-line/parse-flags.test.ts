import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { formatError } from '@mtl/errors';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { describeFlag } from '../schema/describe-flag.js';
import { type FlagName, type Flags, findFlagFacts, flagNames } from '../schema/flag-schema.js';
import { modelOfFlag } from '../schema/model-of-flag.js';
import { megatronFlags } from './megatron/judge-megatron-flag.js';
import { parseFlags } from './parse-flags.js';

const words = (line: string): readonly string[] => line.split(' ').filter((word) => word !== '');
const parse = (line: string) => parseFlags(words(line));

/** Returns the first line of the error message that parsing prints. */
function catchMessage(line: string | readonly string[]): string {
  try {
    parseFlags(typeof line === 'string' ? words(line) : line);
  } catch (error) {
    expect(error).toMatchObject({ exitCode: 2 });
    return formatError(error);
  }
  throw new Error(`no error for ${line}`);
}

describe('parseFlags', () => {
  it.each<[string, FlagName, unknown]>([
    ['--num-layers 3', 'num-layers', 3],
    ['--num-layers=3', 'num-layers', 3],
    ['--num_layers 3', 'num-layers', 3],
    ['--lr 1.5e-4', 'lr', 1.5e-4],
    ['--lr .5', 'lr', 0.5],
    ['--bf16', 'bf16', true],
    ['--bf16=false', 'bf16', false],
    ['--no-bf16', 'bf16', false],
    ['--no-load-optim', 'no-load-optim', true],
    ['--load-optim', 'no-load-optim', false],
    ['--save=a=b', 'save', 'a=b'],
    ['--save -', 'save', '-'],
    ['--lr-decay-style WSD', 'lr-decay-style', 'WSD'],
    ['--data-path a', 'data-path', ['a']],
    ['--data-path 0.3 a 0.7 b --bf16', 'data-path', ['0.3', 'a', '0.7', 'b']],
    ['--data_path=a b', 'data-path', ['a', 'b']],
    ['--rampup-batch-size 16 8 300000', 'rampup-batch-size', [16, 8, 300_000]],
  ])('reads %s', (line, name, value) => {
    const { values, sources } = parse(line);
    expect(values[name]).toEqual(value);
    expect(sources.get(name)).toBe('command line');
  });

  it('keeps spaces inside a value', () => {
    expect(parseFlags(['--save', 'my runs']).values.save).toBe('my runs');
  });

  it('takes the last of a flag that is given several times, with one notice', () => {
    const parsed = parse(
      '--lr 1 --num_layers 3 --lr=2 --data-path a b --num-layers 4 --lr 3 --data-path c --preset char-10m --preset none',
    );
    expect(parsed.values).toMatchObject({ lr: 3, 'num-layers': 4, 'data-path': ['c'] });
    expect(parsed.preset).toBe('none');
    expect(parsed.notices).toEqual([
      'given more than once on the command line, the last one counts: --lr 3, --num-layers 4, --data-path c, --preset none',
    ]);
    expect(parse('--layernorm-epsilon 1e-6 --norm-epsilon 1e-7').values['norm-epsilon']).toBe(1e-7);
    expect(parse('--bf16 --bf16 --preset none').notices).toEqual([
      'given more than once on the command line, the last one counts: --bf16',
    ]);
  });

  it('finds --help and --debug anywhere, before anything else is read', () => {
    expect(parse('--no-such-flag --help')).toMatchObject({ help: true, debug: false });
    expect(parse('-h')).toMatchObject({ help: true });
    expect(parse('--bf16 --debug')).toMatchObject({ help: false, debug: true });
  });

  it.each([
    ['--num-layer 3', 'error[MTL_FLAG_UNKNOWN]: --num-layer is not a flag; expected --num-layers'],
    ['--zzzzzzzzzz', 'error[MTL_FLAG_UNKNOWN]: --zzzzzzzzzz is not a flag'],
    ['--lr zero --lr 2', 'error[MTL_FLAG_VALUE]: --lr zero on the command line'],
    [
      '--recompute-activations --recompute-granularity full',
      'error[MTL_FLAG_REPEATED]: --recompute-activations and --recompute-granularity full contradict each other; expected only one',
    ],
    ['--recompute-activations yes', 'error[MTL_FLAG_ARGUMENT]: "yes" behind --recompute-activations belongs'],
    ['--layernorm-epsilon', 'error[MTL_FLAG_VALUE_MISSING]: --norm-epsilon needs a value'],
    [
      '--recompute-granularity full --recompute-activations',
      'error[MTL_FLAG_REPEATED]: --recompute-granularity full and --recompute-activations contradict each other',
    ],
    [
      '--outer-dp-sharding-strategy no_shard --outer-dp-sharding-strategy optim',
      'error[MTL_FLAG_UNSUPPORTED]',
    ],
    ['--bf16 --no-bf16', 'error[MTL_FLAG_REPEATED]: --bf16 and --no-bf16 contradict each other'],
    ['--no-bf16 --bf16', 'error[MTL_FLAG_REPEATED]: --no-bf16 and --bf16 contradict each other'],
    ['--num-layers', 'error[MTL_FLAG_VALUE_MISSING]: --num-layers needs a value; expected --num-layers N'],
    ['--save --load x', 'error[MTL_FLAG_VALUE_MISSING]: --save needs a value; expected --save DIR'],
    ['--save=', 'error[MTL_FLAG_VALUE_MISSING]: --save needs a value'],
    [
      '--data-path',
      'error[MTL_FLAG_VALUE_MISSING]: --data-path needs a value; expected --data-path [WEIGHT] PREFIX ...',
    ],
    ['--preset', 'error[MTL_FLAG_VALUE_MISSING]: --preset needs a value'],
    [
      '--num-layers six',
      'error[MTL_FLAG_VALUE]: --num-layers six on the command line; expected a whole number of 1 or more',
    ],
    [
      '--num-layers 0',
      'error[MTL_FLAG_VALUE]: --num-layers 0 on the command line; expected a whole number of 1 or more',
    ],
    ['--num-layers 1.5', 'error[MTL_FLAG_VALUE]: --num-layers 1.5 on'],
    ['--num-layers -1', 'error[MTL_FLAG_VALUE]: --num-layers -1 on'],
    ['--num-layers 0x10', 'error[MTL_FLAG_VALUE]: --num-layers 0x10 on'],
    ['--lr 0', 'error[MTL_FLAG_VALUE]: --lr 0 on the command line; expected a number above 0'],
    ['--seed 4294967296', 'expected a whole number of 0 or more, at most 4294967295'],
    ['--lr NaN', 'error[MTL_FLAG_VALUE]: --lr NaN on'],
    ['--lr 1e999', 'error[MTL_FLAG_VALUE]: --lr 1e999 on'],
    [
      '--min-lr -1e-5',
      'error[MTL_FLAG_VALUE]: --min-lr -1e-5 on the command line; expected a number of 0 or more',
    ],
    [
      '--hidden-dropout 1',
      'error[MTL_FLAG_VALUE]: --hidden-dropout 1 on the command line; expected a number of 0 or more, below 1',
    ],
    ['--bf16=maybe', 'error[MTL_FLAG_VALUE]: --bf16 maybe on the command line; expected true or false'],
    [
      '--lr-decay-style cosin',
      'error[MTL_FLAG_VALUE]: --lr-decay-style cosin on the command line; expected constant, linear, cosine, inverse-square-root, WSD\n  remedy: write --lr-decay-style cosine',
    ],
    [
      '--rampup-batch-size 16 8',
      'error[MTL_FLAG_VALUE]: --rampup-batch-size 16 8 on the command line; expected 3 whole numbers of 1 or more: START INCREMENT SAMPLES',
    ],
    ['train', 'error[MTL_FLAG_ARGUMENT]: "train" belongs to no flag'],
    ['--num-layers 3 4', 'error[MTL_FLAG_ARGUMENT]: "4" behind --num-layers belongs to no flag'],
    ['--bf16 true', 'error[MTL_FLAG_ARGUMENT]: "true" behind --bf16 belongs to no flag'],
    ['--no-bf16=true', 'error[MTL_FLAG_ARGUMENT]: "true" behind --no-bf16 belongs to no flag'],
    ['-num-layers 3', 'error[MTL_FLAG_ARGUMENT]: "-num-layers" belongs to no flag; expected --num-layers'],
    ['--bf16 lr 3', 'error[MTL_FLAG_ARGUMENT]: "lr" behind --bf16 belongs to no flag; expected --lr'],
    [
      '--preset gpt2-124',
      'error[MTL_PRESET]: unknown preset gpt2-124; expected default, moe-3m, gpt2-4m, char-10m, gpt2-124m',
    ],
  ])('refuses %s', (line, text) => {
    expect(catchMessage(line)).toContain(text);
  });

  it('reads any set of flags back from the command line it is written to', () => {
    const model = fc.constantFrom('gpt' as const, 'bert' as const);
    fc.assert(
      fc.property(model, fc.subarray([...flagNames]), fc.context(), (model, chosen, context) => {
        const names = chosen.filter((name) => [undefined, model].includes(modelOfFlag(name)));
        const values = Object.fromEntries(names.map((name) => [name, sampleValue(name)]));
        const line = names.flatMap((name) => {
          const value = values[name];
          if (typeof value === 'boolean') return value ? [`--${name}`] : [`--no-${name}`];
          return [`--${name}`, ...(Array.isArray(value) ? value.map(String) : [String(value)])];
        });
        context.log(line.join(' '));
        expect(parseFlags([...line, '--preset', 'none'], { model }).values).toMatchObject(values);
      }),
    );
  });
});

const choicesIn = (name: FlagName) => describeFlag(name).choices.slice(0, 2);

function sampleValue(name: FlagName): unknown {
  const { kind, placeholder } = findFlagFacts(name);
  // the last choice of --optimizer means two flags, so a different choice is tested
  const choices: Partial<Record<FlagName, string>> = { 'tokenizer-type': 'NullTokenizer', optimizer: 'muon' };
  const texts: Partial<Record<FlagName, string>> = {
    'window-size': '7,0',
    'moe-layer-freq': '[0]*3+[1]*58',
    'window-attn-skip-freq': '[0,1]*2',
    'no-rope-freq': '4',
  };
  if (kind === 'choice') return choices[name] ?? placeholder.split('|').at(-1);
  const samples = {
    integer: 7,
    number: 0.25,
    text: texts[name] ?? 'a b',
    boolean: true,
    integers: placeholder.split(' ').map((_, index) => index + 1),
    numbers: [0.5, 0],
    texts: ['a', 'b'],
    choices: choicesIn(name),
  };
  return samples[kind];
}

describe('flags that cannot be used', () => {
  it('are reported together, each with its reason and what to do, and no notice hides them', () => {
    const line =
      '--onnx-safe --use-flash-attn --enable-one-logger --hiden-size 64 --one-logger-project a --bf16';
    expect(catchMessage(line)).toBe(
      [
        'error[MTL_FLAG_UNSUPPORTED]: 4 flags on the command line cannot be used:',
        '  --onnx-safe (a variant of GELU for ONNX in Megatron-LM) is not supported: feed-forward layers have GELU, SwiGLU, quick GEGLU or squared ReLU; leave it out, or pass --swiglu, --quick-geglu or --squared-relu',
        '  --enable-one-logger (reports to NVIDIA in Megatron-LM) is not supported: reports go to files, Weights & Biases or MLflow; use --wandb-project or --mlflow-tracking-uri',
        '  --hiden-size is not a flag; expected --hidden-size; --help lists all flags',
        '  --one-logger-project a (reports to NVIDIA in Megatron-LM) is not supported: reports go to files, Weights & Biases or MLflow; use --wandb-project or --mlflow-tracking-uri',
        '  remedy: change or leave out each flag',
      ].join('\n'),
    );
  });
});

describe("a flag of Megatron-LM's that there is no use for", () => {
  it.each([
    [
      '--onnx-safe',
      /--onnx-safe on the command line \(a variant of GELU for ONNX in Megatron-LM\) is not supported: feed-forward layers have/,
    ],
    [
      '--moe-latent-size 64',
      /MTL_FLAG_UNSUPPORTED.*--moe-latent-size 64 .*experts of a narrower input.*\n {2}remedy: leave it out/,
    ],
    [
      '--hybrid-context-parallel',
      /all samples have the same processes.*\n {2}remedy: use --context-parallel-size/,
    ],
    ['--qk-l2-norm', /queries and keys have learned norms or none.*use --qk-layernorm/s],
    ['--one-logger-project gpt', /reports to NVIDIA.*\n {2}remedy: use --wandb-project/],
    ['--fp8-format hybrid', /training in FP8.*\n {2}remedy: use --bf16/],
    ['--yaml-cfg x.yaml', /remedy: use --config FILE/],
    ['--batch-size 8', /remedy: use --micro-batch-size/],
    ['--rl-prompts-per-eval 3', /--rl-prompts-per-eval 3 .*reinforcement learning/],
    ['--main-params-dtype fp16', /expected fp32/],
    ['--tokenizer-type TikTokenizer', /MTL_FLAG_VALUE.*remedy: save it as tokenizer.json/s],
    ['--tiktoken-pattern v2', /remedy: use --tokenizer-type HuggingFaceTokenizer/],
    [
      '--head-lr-mult 2',
      /shares its learning rate with the word embedding.*\n {2}remedy: use --decoupled-lr/,
    ],
    ['--optimizer lion', /MTL_FLAG_VALUE.*remedy: there are AdamW and Muon: use --optimizer adam or/s],
    ['--muon-coefficient-type polar_express', /expected simple, quintic.*remedy: leave it out for quintic/s],
  ])('is refused with a message of its own: %s', (line, message) => {
    expect(catchMessage(line)).toMatch(message);
  });

  it.each([
    [
      '--use-flash-attn',
      '--use-flash-attn on the command line has no effect: attention never stores its S x S scores, whatever the shape',
    ],
    ['--wandb-save-dir x', 'has no effect: what is not sent yet is kept in the --save directory'],
    ['--no-masked-softmax-fusion', 'has no effect: the kernels here are fused where it pays'],
    ['--transformer-impl transformer_engine', 'has no effect: the kernels here are the same'],
    [
      '--tp-comm-overlap-cfg x.yaml',
      '--tp-comm-overlap-cfg x.yaml on the command line has no effect: the schedule and the layers decide',
    ],
    ['--high-priority-stream-groups a b', '--high-priority-stream-groups a b on'],
    ['--outer-dp-sharding-strategy no_shard', 'has no effect: that is how it always is here'],
    ['--apply-layernorm-1p', 'has no effect: the weights of norms have no weight decay'],
    ['--grad-reduce-in-bf16', 'has no effect: gradients are reduced in the precision of --main-grads-dtype'],
    ['--profile', 'has no effect: profiles change no result; --profile-steps FIRST LAST records one'],
    ['--profile-step-start 4', '--profile-step-start 4 on the command line has no effect: profiles change'],
    ['--profile-step-end 6', '--profile-step-end 6 on the command line has no effect: profiles change'],
    [
      '--tiktoken-pattern v2 --tokenizer-type NullTokenizer --vocab-size 9',
      'has no effect: the tokenizer that --tokenizer-type names has no such pattern',
    ],
  ])('is said to have no effect where leaving it out changes nothing: %s', (line, notice) => {
    expect(parse(`${line} --bf16`).notices).toEqual([expect.stringContaining(notice)]);
  });

  it.each([
    ['--use-flash-attn yes', /"yes" behind --use-flash-attn belongs to no flag/],
    ['--transformer-impl', /--transformer-impl needs a value/],
    ['--transformer-impl local other', /"other" behind --transformer-impl/],
  ])('is still read properly: %s', (line, message) => {
    expect(catchMessage(line)).toMatch(message);
  });

  it('has no effect next to a flag that the program does not use, in a file too', () => {
    const directory = mkdtempSync(join(tmpdir(), 'mtl-config-'));
    const path = join(directory, 'run.yaml');
    writeFileSync(path, 'tiktoken-pattern: v2');
    try {
      const unused = { 'tokenizer-type': 'NullTokenizer' as const };
      for (const line of [
        ['--tiktoken-pattern', 'v2'],
        ['--config', path],
      ]) {
        expect(() => parseFlags(line)).toThrow(/tiktoken-pattern/);
        expect(parseFlags(line, { unused }).notices).toEqual([expect.stringMatching(/has no such pattern$/)]);
      }
    } finally {
      rmSync(directory, { recursive: true });
    }
  });

  it('is never one that we do have, and always has an answer', () => {
    for (const [name, { what, why, remedy }] of megatronFlags) {
      expect(flagNames, name).not.toContain(name);
      expect(name).toMatch(/^[a-z0-9]+(-[a-z0-9]+)*(-?\*)?$/);
      if (name.endsWith('*'))
        expect(flagNames.filter((own) => own.startsWith(name.slice(0, -1)))).toEqual([]);
      expect(what.length * why.length, name).toBeGreaterThan(0);
      expect(remedy, name).not.toBe('');
    }
    expect(megatronFlags.size).toBeGreaterThan(400);
  });
});

describe('--config and --preset', () => {
  let directory: string;
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'mtl-config-'));
  });
  afterEach(() => rmSync(directory, { recursive: true }));

  function file(name: string, content: string): string {
    const path = join(directory, name);
    writeFileSync(path, content);
    return path;
  }

  it('lay over each other: command line, file, preset, default', () => {
    const path = file('run.yaml', 'preset: gpt2-124m\nlr: 0.5\nhidden_size: 96\nseed: 7\n');
    const { values, sources, preset } = parse(`--config ${path} --seed 8`);
    expect(preset).toBe('gpt2-124m');
    const layers: ReadonlyArray<readonly [FlagName, unknown, string]> = [
      ['seed', 8, 'command line'],
      ['lr', 0.5, path],
      ['hidden-size', 96, path],
      ['num-layers', 12, 'preset gpt2-124m'],
      ['adam-eps', 1e-8, 'default'],
    ];
    for (const [name, value, source] of layers) {
      expect([values[name], sources.get(name)], name).toEqual([value, source]);
    }
  });

  it('the preset of the command line comes before the preset of the file', () => {
    const path = file('run.yaml', 'preset: gpt2-124m\n');
    expect(parse(`--config ${path} --preset char-10m`).preset).toBe('char-10m');
    expect(parse(`--config ${path} --preset none`).values['num-layers']).toBeUndefined();
  });

  it.each<[string, string, Flags]>([
    ['run.yaml', 'data-path: corpus\nsplit: 100\n', { 'data-path': ['corpus'], split: '100' }],
    [
      'run.yml',
      'data_path: [0.3, a, 0.7, b]\nbf16: true\n',
      { 'data-path': ['0.3', 'a', '0.7', 'b'], bf16: true },
    ],
    [
      'run.json',
      '{"lr": 1e-3, "rampup-batch-size": [2, 2, 10]}',
      { lr: 1e-3, 'rampup-batch-size': [2, 2, 10] },
    ],
  ])('reads %s: %s', (name, content, flags) => {
    expect(parse(`--config ${file(name, content)}`).values).toMatchObject(flags);
    const ofWindows = file(name, content.replaceAll('\n', '\r\n'));
    expect(parse(`--config ${ofWindows}`).values).toMatchObject(flags);
  });

  it('reports all keys that cannot be used together', () => {
    const path = file('run.yaml', 'num-layer: 3\nonnx-safe: true\nlr: 1\n');
    expect(catchMessage(`--config ${path}`)).toMatch(
      /MTL_CONFIG_KEY\]: 2 flags in .*run.yaml cannot be used:\n {2}num-layer is not a flag; expected num-layers; .*\n {2}--onnx-safe \(/,
    );
  });

  it('says what in a file has no effect', () => {
    const path = file('run.yaml', 'use_flash_attn: true\nouter-dp-sharding-strategy: no_shard\n');
    expect(parse(`--config ${path}`).notices).toEqual([
      expect.stringContaining(`--use-flash-attn in ${path} has no effect`),
      expect.stringContaining('--outer-dp-sharding-strategy no_shard'),
    ]);
  });

  it.each([
    [
      'run.yaml',
      'num-layer: 3\n',
      /MTL_CONFIG_KEY.*num-layer in .*run.yaml is not a flag; expected num-layers/,
    ],
    [
      'run.yaml',
      'num-layers: many\n',
      /MTL_FLAG_VALUE.*--num-layers many in .*run.yaml; expected a whole number/,
    ],
    ['run.yaml', 'num-layers:\n', /MTL_FLAG_VALUE.*--num-layers null in/],
    ['run.yaml', 'bf16: 1\n', /MTL_FLAG_VALUE.*--bf16 1 in .*expected true or false/],
    ['run.yaml', 'onnx-safe: true\n', /MTL_FLAG_UNSUPPORTED.*--onnx-safe in/],
    ['run.yaml', 'num-layers: 1\nnum_layers: 2\n', /MTL_CONFIG_FILE.*num-layers is given twice/],
    ['run.yaml', 'lr: 1\nlr: 2\n', /MTL_CONFIG_FILE.*line 2/],
    ['run.yaml', 'lr: [1\nseed: 2\n', /MTL_CONFIG_FILE.*run.yaml, line \d/],
    ['run.yaml', '- lr\n', /MTL_CONFIG_FILE.*does not hold settings/],
    ['run.yaml', '', /MTL_CONFIG_FILE.*does not hold settings/],
    ['run.yaml', 'preset: 3\n', /MTL_CONFIG_FILE.*preset in .* is 3; expected a name/],
    ['run.json', '{\n"lr": 1,\n}', /MTL_CONFIG_FILE.*run.json, line 3/],
    ['run.json', '{"format":"mtl-configuration"}', /MTL_CONFIG_FILE.*without flags/],
  ])('refuses %s: %j', (name, content, message) => {
    expect(catchMessage(`--config ${file(name, content)}`)).toMatch(message);
  });

  it('refuses a file that is not there', () => {
    expect(catchMessage(`--config ${join(directory, 'no.yaml')}`)).toMatch(
      /MTL_CONFIG_FILE.*no.yaml: does not exist/,
    );
  });

  it.each<[string, readonly FlagName[]]>([
    ['--train-samples 1000', ['train-iters']],
    ['--lr-warmup-iters 10', ['lr-warmup-fraction']],
  ])('%s puts what says the same in the preset out of force', (line, displaced) => {
    const { values, sources } = parse(line);
    for (const name of displaced) {
      expect(values[name]).toBeUndefined();
      expect(sources.has(name)).toBe(false);
    }
  });

  it.each([
    [
      'gpt',
      '--mask-prob 0.15',
      /MTL_FLAG_MODEL.*--mask-prob on the command line is a flag of BERT, this is GPT/,
    ],
    ['gpt', '--layer-norm-placement post', /MTL_FLAG_MODEL.*npm run bert-train/s],
    ['bert', '--eod-mask-loss', /MTL_FLAG_MODEL.*--eod-mask-loss .* is a flag of GPT, this is BERT/],
    ['bert', '--mask-prob 1', /MTL_FLAG_VALUE.*--mask-prob 1 .*below 1/],
    ['bert', '--preset gpt2-124m', /MTL_PRESET.*gpt2-124m is a preset of GPT; expected bert-default, /],
    ['gpt', '--preset bert-base', /MTL_PRESET.*bert-base is a preset of BERT; expected default, /],
    ['bert', '--preset bert-bas', /MTL_PRESET.*unknown preset bert-bas.*--preset bert-base/s],
  ] as const)('a %s is not trained with %s', (model, line, message) => {
    expect(() => parseFlags(words(line), { model })).toThrow(expect.objectContaining({ exitCode: 2 }));
    try {
      parseFlags(words(line), { model });
    } catch (error) {
      expect(formatError(error)).toMatch(message);
    }
  });

  it('takes a file that holds all flags for either model, but no values of the other one', () => {
    const all = file('all.yaml', 'eod-mask-loss: false\nmask-prob: 0.15\n');
    expect(parseFlags(['--config', all], { model: 'bert' }).values['mask-prob']).toBe(0.15);
    expect(parseFlags(['--config', all]).values['eod-mask-loss']).toBe(false);
    const other = file('other.yaml', 'mask-prob: 0.2\n');
    expect(catchMessage(`--config ${other}`)).toMatch(/MTL_FLAG_MODEL.*--mask-prob in .*other.yaml/);
  });

  it('a switch that is turned off leaves its rivals alone', () => {
    const path = file('run.yaml', 'bf16: true\n');
    expect(parse(`--config ${path} --no-fp16`).values).toMatchObject({ bf16: true, fp16: false });
    expect(parse(`--config ${path} --fp16`).values).toMatchObject({ bf16: false, fp16: true });
  });
});
