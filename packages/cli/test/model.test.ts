import {
  appendFileSync,
  cpSync,
  mkdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { openDashboard } from '@mtl/dashboard';
import { perplexity, scoreTokens } from '@mtl/inference';
import { setNumThreads } from '@mtl/kernels';
import { loadGptForInference } from '@mtl/runs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runAsPrinted } from './support/run-as-printed.js';
import { runMtlHere } from './support/run-mtl-here.js';
import { type FinishedMtl, spawnMtl } from './support/spawn-mtl.js';
import { filesUnder, temporaryDirectory } from './support/temporary-directory.js';
import { type TinyGpt, trainGpt, trainTinyGpt } from './support/train-tiny-gpt.js';

const directory = temporaryDirectory();
const cwd = directory.path;
afterAll(() => directory.dispose());

let tiny: TinyGpt;
beforeAll(async () => {
  tiny = await trainTinyGpt(cwd);
  // a checkpoint is self-contained: the original files are gone
  rmSync(join(cwd, 'cats.json'));
});

async function mtl(...argv: string[]): Promise<string> {
  const { status, stdout, stderr } = await spawnMtl(argv, { cwd });
  expect(stderr).toBe('');
  expect(status).toBe(0);
  return stdout;
}

interface Report {
  readonly total: { readonly numScored: number; readonly loss: number; readonly perplexity: number };
}

async function evaluate(...argv: string[]): Promise<Report['total']> {
  return (JSON.parse(await mtl('eval', '--json', ...argv)) as Report).total;
}

describe('mtl watch', () => {
  it('shows what a training run has written', async () => {
    const dashboard = await openDashboard({ directory: cwd, port: 0 });
    const get = async (path: string) => (await fetch(`${dashboard.url}api/runs/run${path}`)).json();
    expect(await get('')).toMatchObject({
      flags: { lr: 0.01, 'num-layers': 2 },
      starts: [{ end: { reason: 'done', iteration: 40 } }],
      checkpoints: [{ iteration: 20 }, { iteration: 40 }],
      problems: [],
    });
    const { series } = (await get('/series?names=lm_loss,validation.lm_loss,tokens_per_s')) as {
      series: Record<string, { x: number[]; y: number[] }>;
    };
    expect(series.lm_loss?.x).toEqual(Array.from({ length: 40 }, (_, step) => step + 1));
    expect(series.lm_loss!.y.at(-1)).toBeLessThan(series.lm_loss!.y[0]! - 1);
    expect(series['validation.lm_loss']?.x).toEqual([40]);
    expect(Math.min(...series.tokens_per_s!.y)).toBeGreaterThan(0);
    await dashboard.close();
  });
});

describe('mtl eval', () => {
  it('needs no flag but --load: model, tokenizer and validation data are remembered', async () => {
    const stdout = await mtl('eval', '--load', 'run');
    expect(stdout).toMatch(
      /^run\/iter_0000040, windows of 32 tokens\n.*cats_text_document\n {2}tokens scored +\d+\n {2}loss +\d\.\d{4} nats a token\n {2}perplexity +\d+\.\d{3}\n$/,
    );
    const newest = await evaluate('--load', 'run');
    const older = await evaluate('--load', 'run', '--ckpt-step', '20');
    // an untrained model has the logarithm of its vocabulary, 5.6 nats; this text has few surprises
    expect(newest.loss).toBeLessThan(2);
    expect(newest.loss).toBeLessThan(older.loss);
    expect(newest.perplexity).toBeCloseTo(Math.exp(newest.loss), 10);
  });

  it('agrees with the sum of the probabilities of the tokens', async () => {
    const text = 'the cat number 3 sat on the mat.';
    writeFileSync(join(cwd, 'short.txt'), text);
    const evaluated = await evaluate('--load', 'run', '--text', 'short.txt');
    const { numScored, loss } = evaluated;
    writeFileSync(join(cwd, 'short.jsonl'), `${JSON.stringify({ title: 'cats', body: text })}\n`);
    const keyed = await evaluate('--load', 'run', '--text', 'short.jsonl', '--json-key', 'body');
    expect(keyed).toEqual(evaluated);
    const loaded = await loadGptForInference({ load: tiny.save, device: 'cpu', onNotice: () => {} });
    const scores = scoreTokens({ model: loaded.model, tokens: loaded.tokenizer!.encode(text) });
    loaded.dispose();
    expect(numScored).toBe(scores.length);
    // the same float32 losses, summed in float64 in both places
    expect(loss).toBeCloseTo(-scores.reduce((sum, score) => sum + score, 0) / scores.length, 6);
  });

  it('scores every token of a file, and moves windows as told', async () => {
    const apart = await evaluate('--load', 'run', '--text', 'cats.txt');
    // the bits of a matmul depend on the number of threads where oneDNN uses AVX2
    const words = ['--load', 'run', '--text', 'cats.txt', '--overlapping-eval', '8', '--threads', '1'];
    const overlapping = await evaluate(...words);
    setNumThreads(1);
    const loaded = await loadGptForInference({ load: tiny.save, device: 'cpu', onNotice: () => {} });
    const tokens = loaded.tokenizer!.encode(readFileSync(tiny.textFile, 'utf8'));
    const expected = await perplexity({ model: loaded.model, tokens, overlap: 24, batchSize: 4 });
    loaded.dispose();
    expect(apart.numScored).toBe(tokens.length - 1);
    expect(overlapping).toEqual(expected);
    expect(overlapping.loss).not.toBe(apart.loss);
    expect(await evaluate('--load', 'run', '--text', 'cats.txt', '--max-tokens', '50')).toMatchObject({
      numScored: 49,
    });
  });

  it.each([
    { size: '--pipeline-model-parallel-size', same: 'the same bits' },
    { size: '--tensor-model-parallel-size', same: 'the same but for rounding' },
  ])('runs on two processes that share a model, with $same: $size 2', async ({ size, same }) => {
    const words = ['eval', '--json', '--load', 'run', '--threads', '1'];
    const argv = ['run', '--nproc-per-node', '2', 'mtl', '--', ...words, size, '2'];
    const { status, stdout } = await spawnMtl(argv, { cwd });
    expect(status).toBe(0);
    const reports = stdout.split('\n').filter((line) => line.includes('"numScored"'));
    expect(reports.length).toBe(1);
    const { total } = JSON.parse(reports[0]!.slice(reports[0]!.indexOf('{'))) as Report;
    const alone = await evaluate('--load', 'run', '--threads', '1');
    expect(total.numScored).toBe(alone.numScored);
    if (same === 'the same bits') expect(total.loss).toBe(alone.loss);
    // float32 rounding of partial sums
    else expect(Math.abs(total.loss / alone.loss - 1)).toBeLessThan(1e-6);
  });

  it('wants the number of processes that share the model', async () => {
    const { status, stderr } = await spawnMtl(
      ['eval', '--load', 'run', '--pipeline-model-parallel-size', '2'],
      {
        cwd,
      },
    );
    expect(status).toBe(2);
    expect(stderr).toMatch(/MTL_WORLD_SIZE.*1 process\(es\) for a model that 2 share/);
  });

  it('computes in bfloat16 what it computes in float32, roughly', async () => {
    const exact = await evaluate('--load', 'run');
    const rounded = await evaluate('--load', 'run', '--bf16');
    expect(rounded.loss).not.toBe(exact.loss);
    // bfloat16 keeps 8 bits; design bound for losses in bf16 is 2e-3, times a few for a model this small
    expect(Math.abs(rounded.loss - exact.loss)).toBeLessThan(1e-2);
  });

  it.each([
    ['a window beyond the positions', ['--seq-length', '33'], 'MTL_SEQUENCE_LENGTH', 'at most 32'],
    ['a stride beyond the window', ['--overlapping-eval', '33'], 'MTL_FLAG_VALUE', 'at most 32'],
    [
      'a tokenizer that is too large',
      ['--tokenizer-type', 'GPT2BPETokenizer'],
      'MTL_TOKENIZER_MODEL',
      '50257',
    ],
    ['an iteration that is not there', ['--ckpt-step', '7'], 'MTL_CHECKPOINT_STEP', '20, 40'],
    ['an empty part', ['--split', '1,0,0'], 'MTL_SPLIT', 'valid part empty'],
    ['a part without a split', ['--load-hf', 'hf'], 'MTL_FLAG_CONFLICT', '--load-hf'],
  ])('refuses %s', async (_, argv, code, says) => {
    const { status, stdout, stderr } = await spawnMtl(['eval', '--load', 'run', ...argv], { cwd });
    expect(stderr).toContain(`error[${code}]`);
    expect(stderr).toContain(says);
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
  });
});

describe('mtl generate', () => {
  it('tells of a prompt that is longer than the context, which slides', async () => {
    const prompt = 'the cat sat on the mat '.repeat(40);
    const { status, stderr } = await spawnMtl(
      ['generate', '--load', 'run', '--prompt', prompt, '--max-new-tokens', '1'],
      { cwd },
    );
    expect(status).toBe(0);
    expect(stderr).toMatch(
      /^warning\[MTL_CONTEXT\]: the prompt has \d+ tokens, the context of the model is (\d+): the text goes on from the last \d+ tokens/,
    );
    const short = await spawnMtl(['generate', '--load', 'run', '--prompt', 'a', '--max-new-tokens', '1'], {
      cwd,
    });
    expect(short.stderr).toBe('');
  });

  it('continues a text on two stages of a pipeline as one process does, and prints it once', async () => {
    const words = [
      'generate',
      '--json',
      '--load',
      'run',
      '--prompt',
      'The cat',
      '--threads',
      '1',
      '--seed',
      '3',
    ];
    const size = ['--pipeline-model-parallel-size', '2'];
    const { status, stdout } = await spawnMtl(
      ['run', '--nproc-per-node', '2', 'mtl', '--', ...words, ...size],
      { cwd },
    );
    expect(status).toBe(0);
    const reports = stdout.split('\n').filter((line) => line.includes('"finishReason"'));
    expect(reports.length).toBe(1);
    const alone = await mtl(...words);
    expect(JSON.parse(reports[0]!.slice(reports[0]!.indexOf('{')))).toEqual(JSON.parse(alone));
  });

  const listGreedyFlags = (load: string) => ['--load', load, '--prompt', 'the cat', '--temperature', '0'];
  const greedy = listGreedyFlags('run');

  it('continues a prompt and streams the text', async () => {
    const sixty = ['--max-new-tokens', '60'];
    const stdout = await mtl('generate', ...greedy, ...sixty);
    expect(stdout).toMatch(/^the cat number .*sat on the mat\. the cat number /);
    expect(stdout.endsWith('\n')).toBe(true);
    // a pipe joins writes that follow each other quickly, so the test counts calls
    const here = await runMtlHere('generate', ...listGreedyFlags(join(cwd, 'run')), ...sixty);
    expect(here).toMatchObject({ status: 0, stdout, stderr: '' });
    expect(here.numWrites).toBeGreaterThan(5);
  });

  it('takes the prompt from a file, without its last line break', async () => {
    writeFileSync(join(cwd, 'prompt.txt'), 'the cat\n');
    const fromFile = [
      '--load',
      'run',
      '--prompt-file',
      'prompt.txt',
      '--temperature',
      '0',
      '--max-new-tokens',
      '9',
    ];
    expect(await mtl('generate', ...fromFile)).toBe(
      await mtl('generate', ...greedy, '--max-new-tokens', '9'),
    );
  });

  it('samples as the end of a run does, unless told otherwise', async () => {
    const sampled = (...flags: readonly string[]) =>
      mtl('generate', '--load', 'run', '--num-samples', '4', '--max-new-tokens', '30', ...flags);
    const byDefault = await sampled();
    expect(byDefault).toBe(await sampled('--temperature', '0.8', '--top-p', '0.95'));
    expect(byDefault).not.toBe(await sampled('--temperature', '1', '--top-p', '1'));
    const help = (await mtl('generate', '--help')).replace(/\s+/g, ' ');
    expect(help).toContain('always the most probable token. [0.8]');
    expect(help).toContain('sum to p. [0.95]');
  });

  it('gives the same samples for the same seed, different ones for another', async () => {
    const sample = async (seed: string): Promise<string> =>
      await mtl(
        'generate',
        '--load',
        'run',
        '--num-samples',
        '2',
        '--max-new-tokens',
        '20',
        '--seed',
        seed,
        '--json',
      );
    const samples = (await sample('1'))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { text: string; tokens: number[]; finishReason: string });
    expect(samples).toHaveLength(2);
    expect(samples[0]!.text).not.toBe(samples[1]!.text);
    for (const { tokens, finishReason } of samples) {
      expect(finishReason === 'stop' || tokens.length === 20).toBe(true);
    }
    expect(await sample('1')).toBe(await sample('1'));
    expect(await sample('2')).not.toBe(await sample('1'));
  });
});

describe('mtl convert', () => {
  beforeAll(async () => {
    expect(await mtl('convert', '--load', 'run', '--save-hf', 'hf')).toBe(
      'run/iter_0000040 -> hf (float32)\n',
    );
    await mtl('convert', '--load-hf', 'hf', '--save', 'back');
  });

  it('keeps weights and tokenizer, there and back', async () => {
    const data = ['--data-path', 'cats_text_document', '--split', '90,10,0'];
    const { loss } = await evaluate('--load', 'run');
    expect((await evaluate('--load-hf', 'hf', ...data)).loss).toBe(loss);
    expect((await evaluate('--load', 'back', ...data)).loss).toBe(loss);
    const generate = ['--prompt', 'the cat', '--temperature', '0', '--max-new-tokens', '12'];
    const expected = await mtl('generate', '--load', 'run', ...generate);
    expect(await mtl('generate', '--load-hf', 'hf', ...generate)).toBe(expected);
    expect(await mtl('generate', '--load', 'back', ...generate)).toBe(expected);
  });

  it('prints a command that runs as it is printed', async () => {
    // a shell must be told that this is one word
    const converted = join(cwd, "the cat's");
    const stdout = await mtl('convert', '--load-hf', 'hf', '--save', converted);
    const command = /^train it on with (.*)$/m.exec(stdout)![1]!;
    const run = await runAsPrinted(`${command} --verbose`, { cwd });
    expect(run).toMatchObject({ status: 0, stderr: '' });
    expect(run.stdout).toMatch(/^ {4}num-layers +2 +checkpoint /m);
    expect(run.stdout).toContain('iteration      100/     100');
    expect(await mtl('checkpoint', 'inspect', converted)).toContain('iter_0000100');
  });

  it('prints a command for a BERT, too, whose short samples may have no masked token', async () => {
    cpSync(new URL('../../formats/fixtures/huggingface-bert', import.meta.url), join(cwd, 'bert'), {
      recursive: true,
    });
    const words = '[PAD] [UNK] [CLS] [SEP] [MASK] the of and to in a that for be our is it by which have as';
    writeFileSync(join(cwd, 'bert', 'vocab.txt'), `${words.replaceAll(' ', '\n')}\n`);
    writeFileSync(join(cwd, 'bert', 'tokenizer_config.json'), '{"do_lower_case": true}');
    const stdout = await mtl('convert', '--load-hf', 'bert', '--save', 'begun-bert');
    const run = await runAsPrinted(/^train it on with (.*)$/m.exec(stdout)![1]!, { cwd });
    expect(run).toMatchObject({ status: 0, stderr: '' });
    expect(run.stdout).toContain('iteration      100/     100');
  });

  it('begins checkpoints that a training run goes on from', async () => {
    const converted = join(cwd, 'begun');
    await mtl('convert', '--load-hf', 'hf', '--save', converted);
    const metrics = join(cwd, 'begun.jsonl');
    const printed = await trainGpt({
      data: { dataPath: [tiny.prefix], split: '90,10,0' },
      training: { microBatchSize: 8, globalBatchSize: 8, trainIterations: 20, evalIterations: 1 },
      optimizer: { maxLearningRate: 0.003 },
      checkpoint: { load: converted, save: converted },
      logging: { metricsJsonl: metrics },
    });
    expect(printed).toContain('iteration 0');
    const losses = readFileSync(metrics, 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { type?: string; lm_loss: number })
      .filter(({ type }) => type === undefined)
      .map((step) => step.lm_loss);
    expect(losses).toHaveLength(20);
    // training continues from the learnt weights: untrained weights have a loss of 5.6
    const { loss } = await evaluate('--load', 'run');
    expect(losses[0]).toBeLessThan(loss + 0.5);
    // another schedule and new moments, but the same text: the loss falls further
    expect((await evaluate('--load', converted)).loss).toBeLessThan(loss);
    expect(await mtl('checkpoint', 'inspect', converted)).toContain('iter_0000020');
  });

  it('stores weights in half the bytes when asked to', async () => {
    await mtl('convert', '--load', 'run', '--save-hf', 'half', '--dtype', 'bfloat16');
    const countBytes = (name: string): number => readFileSync(join(cwd, name, 'model.safetensors')).length;
    expect(countBytes('half') / countBytes('hf')).toBeLessThan(0.6);
    expect(JSON.parse(readFileSync(join(cwd, 'half', 'config.json'), 'utf8'))).toMatchObject({
      dtype: 'bfloat16',
    });
  });

  it('never writes over a model', async () => {
    const before = filesUnder(cwd);
    for (const [argv, code] of [
      [['--load', 'run', '--save-hf', 'hf'], 'MTL_HUGGING_FACE_EXISTS'],
      [['--load-hf', 'hf', '--save', 'back'], 'MTL_CHECKPOINT_EXISTS'],
    ] as const) {
      const { status, stderr } = await spawnMtl(['convert', ...argv], { cwd });
      expect(stderr).toContain(`error[${code}]`);
      expect(status).toBe(2);
    }
    expect(filesUnder(cwd)).toEqual(before);
  });

  it('refuses to guess where a Hugging Face directory has no tokenizer and no data', async () => {
    cpSync(join(cwd, 'hf'), join(cwd, 'bare'), { recursive: true });
    rmSync(join(cwd, 'bare', 'tokenizer.json'));
    const refused = async (...argv: string[]): Promise<FinishedMtl> => await spawnMtl(argv, { cwd });
    expect((await refused('generate', '--load-hf', 'bare')).stderr).toContain('error[MTL_TOKENIZER_MISSING]');
    expect((await refused('eval', '--load-hf', 'bare')).stderr).toContain('error[MTL_FLAG_REQUIRED]');
    const part = ['--data-path', 'cats_text_document', '--part', 'valid'];
    expect((await refused('eval', '--load-hf', 'bare', ...part)).stderr).toContain('error[MTL_FLAG_NEEDS]');
  });
});

describe('mtl checkpoint', () => {
  it('lists checkpoints, newest first, and their tensors', async () => {
    const stdout = await mtl('checkpoint', 'inspect', 'run', '--tensors');
    expect(stdout.match(/^run\/iter_\d+$/gm)).toEqual(['run/iter_0000040', 'run/iter_0000020']);
    expect(stdout).toMatch(/embedding\.position_embeddings\.weight +F32 \[32, 32\]/);
    const { checkpoints } = JSON.parse(await mtl('checkpoint', 'inspect', 'run/iter_0000020', '--json')) as {
      checkpoints: Array<{ iteration: number; hasOptimizer: boolean; state: { progress: object } }>;
    };
    expect(checkpoints).toHaveLength(1);
    expect(checkpoints[0]).toMatchObject({
      iteration: 20,
      hasOptimizer: true,
      state: { progress: { iteration: 20 } },
    });
  });

  it('verifies every byte, and every command uses the newest whole one and says so', async () => {
    expect(await mtl('checkpoint', 'verify', 'run')).toMatch(
      /iter_0000020: whole.*\nrun\/iter_0000040: whole/,
    );
    cpSync(join(cwd, 'run'), join(cwd, 'torn'), { recursive: true });
    const shard = join(cwd, 'torn', 'iter_0000040', 'shard-00000-000.safetensors');
    truncateSync(shard, readFileSync(shard).length - 8);
    appendFileSync(shard, 'xxxxxxxx');
    const verified = await spawnMtl(['checkpoint', 'verify', 'torn'], { cwd });
    expect(verified.status).toBe(2);
    expect(verified.stdout).toMatch(
      /iter_0000020: whole.*\ntorn\/iter_0000040: NOT WHOLE: .*shard-00000-000/,
    );
    expect(verified.stderr).toContain('error[MTL_CHECKPOINT_CORRUPT]: 1 of 2');
    expect(verified.stderr).toContain('torn/iter_0000020 is the newest whole one');
    const evaluated = await spawnMtl(['eval', '--load', 'torn'], { cwd });
    expect(evaluated.status).toBe(0);
    expect(evaluated.stderr).toContain('skipped torn/iter_0000040');
    expect(evaluated.stdout).toMatch(/^torn\/iter_0000020, /);
  });

  it('verifies a Hugging Face directory by its index', async () => {
    expect(await mtl('checkpoint', 'verify', 'hf')).toMatch(/^hf: whole, /);
    const sharded = join(cwd, 'sharded');
    mkdirSync(sharded);
    const name = 'model-00001-of-00001.safetensors';
    cpSync(join(cwd, 'hf', 'model.safetensors'), join(sharded, name));
    const index = { metadata: { total_size: 1 }, weight_map: { absent: name } };
    writeFileSync(join(sharded, 'model.safetensors.index.json'), JSON.stringify(index));
    const verified = await spawnMtl(['checkpoint', 'verify', 'sharded'], { cwd });
    expect(verified.stdout).toMatch(
      /^sharded: NOT WHOLE: .*index\.json: it says that "absent" is in model-00001/,
    );
    expect(verified.status).toBe(2);
  });
});
