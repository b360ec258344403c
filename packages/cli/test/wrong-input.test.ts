import { cpSync, mkdirSync, mkdtempSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { prepareDataset } from '@mtl/data';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runMtlIn } from './support/run-mtl-in.js';
import { spawnMtl } from './support/spawn-mtl.js';
import { filesUnder, temporaryDirectory } from './support/temporary-directory.js';

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
  readonly version: string;
};
const directory = temporaryDirectory();
const template = join(directory.path, 'template');
afterAll(() => directory.dispose());

beforeAll(async () => {
  mkdirSync(join(template, 'empty'), { recursive: true });
  writeFileSync(join(template, 'good.txt'), 'some text\n\nmore text\n');
  writeFileSync(join(template, 'broken.jsonl'), '{"text": "fine"}\n{"text": \n');
  writeFileSync(join(template, 'broken.csv'), '0F0,0B0\n1F0\n');
  for (const name of ['whole', 'torn']) {
    await prepareDataset({
      inputs: [join(template, 'good.txt')],
      outputPrefix: join(template, name),
      tokenizer: { type: 'ByteLevelTokenizer' },
    });
  }
  truncateSync(join(template, 'torn_text_document.bin'), 5);
});

/** Makes a copy of the template folder, and returns its path. */
function ownDirectory(): string {
  const path = mkdtempSync(join(directory.path, 'case-'));
  cpSync(template, path, { recursive: true });
  return path;
}

const bytes = ['--tokenizer-type', 'ByteLevelTokenizer'];
const pipeline = ['--stages', '2', '--micro-batches', '4'];
const prepare = ['data', 'prepare', '--output-prefix', 'out', ...bytes];

/** The fault, the command line, the code, and words that the message must also have. */
const cases: ReadonlyArray<readonly [what: string, argv: readonly string[], code: string, says: string]> = [
  ['a command misspelt', ['generat'], 'MTL_COMMAND_UNKNOWN', 'expected generate'],
  ['help on a command misspelt', ['help', 'generat'], 'MTL_COMMAND_UNKNOWN', 'expected generate'],
  ['--help of no command', ['nonsense', '--help'], 'MTL_COMMAND_UNKNOWN', 'expected train, run, data'],
  [
    'two ways to recompute',
    [
      ...['finetune', '--task', 'mnli', '--data-dir', 'empty'],
      ...['--recompute-activations', '--recompute-granularity', 'full'],
    ],
    'MTL_FLAG_CONFLICT',
    '--recompute-activations means --recompute-granularity selective',
  ],
  ['no subcommand', ['data'], 'MTL_COMMAND_MISSING', 'build-index'],
  ['a subcommand misspelt', ['data', 'inspct'], 'MTL_COMMAND_UNKNOWN', 'expected inspect'],
  ['a flag misspelt', ['data', 'prepare', '--inptu', 'a'], 'MTL_FLAG_UNKNOWN', 'expected --input'],
  ['a flag missing', ['data', 'prepare'], 'MTL_FLAG_REQUIRED', '--input'],
  ['a switch with a value', ['plan', '--search=5'], 'MTL_FLAG_ARGUMENT', '--search takes no value'],
  [
    'a flag of the run before --',
    ['plan', '--preset', 'a'],
    'MTL_FLAG_UNKNOWN',
    'of the training run follow --',
  ],
  [
    'the beginning of a profile',
    ['plan', '--profile', 'h100'],
    'MTL_PROFILE_NAME',
    'did you mean h100-80gb?',
  ],
  [
    'a text as program',
    ['run', 'good.txt'],
    'MTL_PROGRAM',
    'good.txt is a file that ranks cannot be started from',
  ],
  ['no directory', ['generate', '--load-hf', 'gpt2'], 'MTL_HUGGING_FACE_CONFIG', 'gpt2 not found'],
  [
    'a file as directory',
    ['generate', '--load', 'good.txt'],
    'MTL_CHECKPOINT_DENIED',
    'place of a directory',
  ],
  ['the same', ['checkpoint', 'verify', 'good.txt'], 'MTL_CHECKPOINT_DENIED', 'place of a directory'],
  ['a flag without its value', [...prepare, '--input'], 'MTL_FLAG_VALUE_MISSING', '--input'],
  [
    'a flag given twice',
    [...prepare, '--input', 'good.txt', ...bytes],
    'MTL_FLAG_REPEATED',
    '--tokenizer-type',
  ],
  [
    'a count that is none',
    [...prepare, '--input', 'good.txt', '--workers', '1.5'],
    'MTL_FLAG_VALUE',
    'whole number',
  ],
  ['a name misspelt', ['data', 'train-tokenizer', '--type', 'bpee'], 'MTL_FLAG_VALUE', 'pass --type bpe'],
  ['an argument too many', ['doctor', 'now'], 'MTL_ARGUMENT_EXCESS', 'doctor'],
  ['a dataset missing', ['data', 'inspect', 'nowhere'], 'MTL_DATA_INDEXED_DATASET', 'nowhere'],
  [
    'one of two datasets missing',
    ['data', 'inspect', 'whole_text_document', 'x'],
    'MTL_DATA_INDEXED_DATASET',
    'x',
  ],
  [
    'a dataset torn',
    ['data', 'verify', 'torn_text_document'],
    'MTL_DATA_INDEXED_DATASET',
    'torn_text_document',
  ],
  [
    'a language that is none',
    [...prepare, '--input', 'good.txt', '--split-sentences', '--lang', 'no language'],
    'MTL_DATA_LOCALE',
    'no language',
  ],
  ['a corpus missing', [...prepare, '--input', 'nowhere.txt'], 'MTL_DATA_CORPUS', 'nowhere.txt'],
  ['a corpus broken', [...prepare, '--input', 'broken.jsonl'], 'MTL_DATA_CORPUS', 'line 2'],
  [
    'a tokenizer without its file',
    [
      'data',
      'prepare',
      '--input',
      'good.txt',
      '--output-prefix',
      'out',
      '--tokenizer-type',
      'HuggingFaceTokenizer',
    ],
    'MTL_FLAG_NEEDS',
    '--tokenizer-model',
  ],
  [
    'a tokenizer file of another tokenizer',
    [...prepare, '--input', 'good.txt', '--merge-file', 'merges.txt'],
    'MTL_FLAG_NEEDS',
    '--merge-file',
  ],
  ['a merge into its own input', mergeInto('whole_text_document'), 'MTL_DATA_MERGE', 'whole_text_document'],
  ['a training flag misspelt', ['data', 'build-index', '--sed', '1'], 'MTL_FLAG_UNKNOWN', 'expected --seed'],
  ['no data to index', ['data', 'build-index'], 'MTL_FLAG_REQUIRED', '--data-path'],
  ['no such model', ['data', 'build-index', '--model', 'bart'], 'MTL_FLAG_VALUE', 'expected gpt or bert'],
  [
    "a GPT's flag",
    ['data', 'build-index', '--model', 'bert', '--eod-mask-loss'],
    'MTL_FLAG_MODEL',
    'is a flag of GPT',
  ],
  ['a vocabulary too small', trainTokenizer('10', 'good.txt'), 'MTL_DATA_VOCABULARY_SIZE', '257'],
  ['nothing to train a tokenizer on', trainTokenizer('300', 'none.txt'), 'MTL_DATA_CORPUS', 'none.txt'],
  ['no model', ['eval', '--text', 'good.txt'], 'MTL_FLAG_REQUIRED', '--load DIR'],
  ['two models', ['generate', '--load', 'a', '--load-hf', 'b'], 'MTL_FLAG_CONFLICT', '--load-hf'],
  ['two models of a chat', ['chat', 'a', '--load', 'b'], 'MTL_FLAG_CONFLICT', 'a and b are two models'],
  ['an unknown model of train', ['train', 'gtp'], 'MTL_COMMAND_UNKNOWN', 'gpt'],
  ['a misspelt flag of train', ['train', 'gpt', '--train-iter', '5'], 'MTL_FLAG_UNKNOWN', '--train-iters'],
  ['a flag of the other model', ['train', 'gpt', '--mask-prob', '0.1'], 'MTL_FLAG_MODEL', 'bert'],
  ['instruction tuning of nothing', ['sft', '--train-data', 'x.jsonl'], 'MTL_FLAG_REQUIRED', '--model is'],
  ['a misspelt flag of sft', ['sft', '--train-dta', 'x'], 'MTL_FLAG_UNKNOWN', '--train-data'],
  ['a directory without checkpoints', ['generate', '--load', 'empty'], 'MTL_CHECKPOINT_NONE', 'empty'],
  [
    'a directory without a model',
    ['eval', '--load-hf', 'empty', '--text', 'good.txt'],
    'MTL_HUGGING_FACE_CONFIG',
    'config.json',
  ],
  [
    'two prompts',
    ['generate', '--load', 'a', '--prompt', 'a', '--prompt-file', 'b'],
    'MTL_FLAG_CONFLICT',
    '--prompt',
  ],
  [
    'a text that ranks share',
    ['generate', '--load', 'a', '--context-parallel-size', '2'],
    'MTL_CONTEXT_PARALLEL',
    '--tensor-model-parallel-size divides',
  ],
  ['a prompt file missing', ['generate', '--load', 'a', '--prompt-file', 'b'], 'MTL_PROMPT_FILE', 'b'],
  ['a temperature below 0', ['generate', '--temperature', '-1'], 'MTL_FLAG_VALUE', '0 or more'],
  ['two sources of text', ['eval', '--text', 'a', '--data-path', 'b'], 'MTL_FLAG_CONFLICT', '--data-path'],
  ['a key of no text', ['eval', '--load', 'a', '--json-key', 'body'], 'MTL_FLAG_NEEDS', '--text FILE'],
  ['two precisions', ['eval', '--load', 'a', '--bf16', '--fp16'], 'MTL_FLAG_CONFLICT', '--bf16'],
  ['a device that is not there', ['eval', '--load', 'a', '--device', 'cuda'], 'MTL_CUDA_LIBRARY', 'nowhere'],
  ['no way to convert', ['convert', '--load', 'a', '--save', 'b'], 'MTL_FLAG_CONFLICT', '--save-hf'],
  ['no schedule', ['schedule'], 'MTL_FLAG_REQUIRED', '--pipeline-schedule'],
  [
    'a schedule misspelt',
    ['schedule', '--pipeline-schedule', '1fib', ...pipeline],
    'MTL_SCHEDULE_NAME',
    'did you mean 1f1b?',
  ],
  ['a schedule without a size', ['schedule', '--pipeline-schedule', '1f1b'], 'MTL_FLAG_REQUIRED', '--stages'],
  [
    'a schedule that does not fit its micro-batches',
    ['schedule', '--pipeline-schedule', 'interleaved', '--stages', '4', '--micro-batches', '6'],
    'MTL_SCHEDULE_MICRO_BATCHES',
    '4 or 8 micro-batches',
  ],
  [
    'a pipeline of one stage',
    ['schedule', '--pipeline-schedule', '1f1b', '--stages', '1'],
    'MTL_FLAG_VALUE',
    '2 or more',
  ],
  [
    'a schedule file missing',
    ['schedule', '--pipeline-schedule', 'own.csv', '--svg', 'a.svg'],
    'MTL_SCHEDULE_FILE',
    'own.csv',
  ],
  [
    'a schedule file that cannot run',
    ['schedule', '--pipeline-schedule', 'broken.csv', '--svg', 'a.svg'],
    'MTL_SCHEDULE_CSV',
    'broken.csv, line 2: rank 1 never runs',
  ],
  [
    'a schedule file together with a size',
    ['schedule', '--pipeline-schedule', 'broken.csv', '--stages', '2'],
    'MTL_FLAG_CONFLICT',
    'leave --stages out',
  ],
  [
    'a list of times of another length',
    ['schedule', '--pipeline-schedule', 'gpipe', ...pipeline, '--forward-time', '1,2,3'],
    'MTL_FLAG_VALUE',
    '--forward-time: 3 times',
  ],
  [
    'a time that is none',
    ['schedule', '--pipeline-schedule', 'gpipe', ...pipeline, '--backward-time', '1,,2'],
    'MTL_FLAG_VALUE',
    '--backward-time 1,,2',
  ],
  [
    'a picture that cannot be written',
    ['schedule', '--pipeline-schedule', 'gpipe', ...pipeline, '--svg', 'nowhere/a.svg'],
    'MTL_SCHEDULE_FILE',
    '--svg nowhere/a.svg',
  ],
  ['no checkpoint to look at', ['checkpoint', 'inspect', 'empty'], 'MTL_CHECKPOINT_NONE', 'empty'],
];

function mergeInto(prefix: string): string[] {
  return ['data', 'merge', '--input', prefix, '--output-prefix', prefix];
}

function trainTokenizer(size: string, input: string): string[] {
  return [
    'data',
    'train-tokenizer',
    '--type',
    'bpe',
    '--vocab-size',
    size,
    '--input',
    input,
    '--output',
    'out.json',
  ];
}

describe('wrong input', () => {
  it.each(cases)('%s: one coded error, exit status 2, nothing written', async (_, argv, code, says) => {
    const cwd = ownDirectory();
    const before = filesUnder(cwd);
    // whatever this machine has: no CUDA
    const env = { MTL_CUDA_LIBRARY: 'nowhere' };
    const { status, stdout, stderr } = await runMtlIn(argv, { cwd, env });
    expect(stderr).toContain(`error[${code}]`);
    expect(stderr).toContain(says);
    expect(stderr.match(/error\[/g)).toHaveLength(1);
    expect(stderr).not.toMatch(/\n\s+at /);
    expect(stdout).toBe('');
    expect(status).toBe(2);
    expect(filesUnder(cwd)).toEqual(before);
  });

  it('ends a process with status 2, after the one message', async () => {
    const { status, stdout, stderr } = await spawnMtl(['data', 'inspct'], { cwd: template });
    expect(stderr).toMatch(/^error\[MTL_COMMAND_UNKNOWN\]: [^\n]*\n( {2}[^\n]*\n)*$/);
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
  });

  it('shows the stack with --debug', async () => {
    const { stderr } = await runMtlIn(['data', 'inspect', 'nowhere', '--debug'], { cwd: template });
    expect(stderr).toMatch(/error\[MTL_DATA_INDEXED_DATASET\][\s\S]*\n\s+at /);
  });
});

describe('help and version', () => {
  it('are printed to standard output', async () => {
    const help = await runMtlIn(['--help'], { cwd: template });
    expect(help).toMatchObject({ status: 0, stderr: '' });
    for (const name of ['data', 'eval', 'generate', 'convert', 'checkpoint', 'schedule', 'doctor']) {
      expect(help.stdout).toMatch(new RegExp(`^ {2}${name} `, 'm'));
    }
    expect(await runMtlIn(['--version'], { cwd: template })).toMatchObject({
      status: 0,
      stdout: `${version}\n`,
      stderr: '',
    });
  });
});
