import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { prepareDataset } from '@mtl/data';
import { checkpointBytes, prepareSentences, withoutFlags } from '@mtl/runs/testing';
import { readMetrics } from '@mtl/tooling/read-metrics';
import { runProgram } from '@mtl/tooling/run-program';
import { runProgramHere } from '@mtl/tooling/run-program-here';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const program = fileURLToPath(new URL('../dist/main.js', import.meta.url));
let directory: string;
let data: readonly string[];

/** Flags of a training run that takes a second: a tiny model on tiny sentences, in steps of 8 samples. */
const tiny = [
  ...['--preset', 'none', '--num-layers', '2', '--hidden-size', '32', '--num-attention-heads', '2'],
  ...['--seq-length', '32', '--max-position-embeddings', '32'],
  ...['--micro-batch-size', '4', '--global-batch-size', '8'],
  ...['--lr', '5e-3', '--lr-decay-style', 'linear', '--train-iters', '12', '--threads', '1'],
  ...['--eval-iters', '2', '--eval-interval', '100', '--log-interval', '1', '--split', '90,10,0'],
];

/** Returns the flags of the tiny recipe, with the given flags in place of the recipe's values. */
const recipeWith = (given: readonly string[]) => [...withoutFlags([...tiny, ...data], given), ...given];

// runs the program in this process: starting a separate one takes half a second more
const start = (flags: readonly string[]) => runProgramHere({ program, flags, directory });
const train = (given: readonly string[]) => start(recipeWith(given));
const locate = (name: string): string => join(directory, name);

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'mtl-bert-train-'));
  data = await prepareSentences(directory);
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

describe('the preset of a command line that asks for nothing of its own', () => {
  it('starts with its golden losses', async () => {
    const golden = JSON.parse(
      readFileSync(new URL('../fixtures/golden-losses.json', import.meta.url), 'utf8'),
    ) as { readonly lmLosses: readonly number[] };
    const metrics = locate('golden.jsonl');
    const steps = String(golden.lmLosses.length);
    const run = await runProgram({
      program,
      flags: ['--exit-interval', steps, '--save', locate('golden'), '--metrics-jsonl', metrics],
      directory,
    });
    expect(run.output).toContain('prepared 2,386,792 tokens');
    expect(run.code).toBe(0);
    const lines = readMetrics(metrics);
    expect(lines).toHaveLength(golden.lmLosses.length);
    lines.forEach(({ lm_loss }, step) => {
      // other instruction sets and thread counts add up in another order; ten steps amplify rounding to about
      // 1e-6
      expect(Math.abs(lm_loss! - golden.lmLosses[step]!), `step ${step + 1}`).toBeLessThan(2e-5);
    });
  });
});

describe('a training run', () => {
  let run: Awaited<ReturnType<typeof train>>;
  /**
   * Returns the folder in which the run writes its model, which has the only placement of layer norms that
   * Hugging Face supports.
   */
  const huggingFace = () => locate('hugging-face');
  beforeAll(async () => {
    const saves = ['--save', locate('learns'), '--save-hf', huggingFace()];
    run = await train(['--layer-norm-placement', 'post', '--train-iters', '60', ...saves]);
  });

  it('learns, and ends with both losses and a few filled masks', () => {
    expect(run.code).toBe(0);
    const masked = Number(/^ {2}lm loss +([\d.]+)/m.exec(run.output)?.[1]);
    // guessing among 100 words has a loss of ln 100 = 4.6; in these sentences one word predicts the other
    expect(masked).toBeLessThan(3);
    for (const name of ['sop loss', 'total loss'])
      expect(run.output).toMatch(new RegExp(`^ {2}${name} +[\\d.]+`, 'm'));
    expect(run.output).toMatch(
      /validation loss at iteration 60 \| lm loss value: .*\| lm loss PPL: .*\| sop loss value: .*\| total loss value: /,
    );
    const masks = run.output.split(/^Masks filled .*:\n/m)[1]!;
    expect(masks.match(/^\.\.\. .*\[____\].* \.\.\.$/gm)!.length).toBe(4);
    const lines = masks.match(/^ {4}\S+ \d+\.\d %(, \S+ \d+\.\d %){4} \(it was: \S+\)$/gm)!;
    expect(lines.length).toBe(4);
    for (const line of lines) {
      const percent = [...line.matchAll(/ ([\d.]+) %/g)].map(([, number]) => Number(number));
      expect(percent).toEqual(percent.toSorted((a, b) => b - a));
      const sum = percent.reduce((total, each) => total + each, 0);
      // the probabilities of five of a hundred words, after training; each number is rounded to a tenth
      expect(sum).toBeGreaterThan(20);
      expect(sum).toBeLessThanOrEqual(100.25);
    }
  });

  it('goes on bitwise from a checkpoint: the same metrics, the same bytes', async () => {
    const [whole, parts] = [locate('whole'), locate('parts')];
    const dropout = ['--hidden-dropout', '0.1', '--attention-dropout', '0.1'];
    await train([...dropout, '--save', whole, '--metrics-jsonl', `${whole}.jsonl`]);
    const first = ['--save', parts, '--metrics-jsonl', `${parts}.jsonl`];
    await train([...dropout, ...first, '--exit-interval', '5']);
    const resumed = await train([...dropout, ...first, '--load', parts]);
    expect(resumed.output).toContain('iteration 5');
    const facts = (path: string) =>
      readMetrics(path).map(({ iteration, lm_loss, sop_loss, grad_norm, consumed_samples }) => ({
        iteration,
        lm_loss,
        sop_loss,
        grad_norm,
        consumed_samples,
      }));
    expect(facts(`${whole}.jsonl`).length).toBe(12);
    expect(facts(`${parts}.jsonl`)).toEqual(facts(`${whole}.jsonl`));
    expect(checkpointBytes(join(parts, 'iter_0000012'))).toEqual(
      checkpointBytes(join(whole, 'iter_0000012')),
    );
  });

  it('writes a Hugging Face directory and trains on from one, architecture included', async () => {
    const metrics = `${huggingFace()}.jsonl`;
    expect(run.output).toContain(`wrote ${huggingFace()}`);
    expect(readdirSync(huggingFace()).sort()).toEqual([
      ...['config.json', 'model.safetensors', 'tokenizer_config.json', 'vocab.txt'],
    ]);
    // sizes and tokenizer come from the directory
    const ofRun = [...data.slice(0, 2), '--split', '90,10,0', '--micro-batch-size', '4', '--threads', '1'];
    const again = await start([
      ...['--load-hf', huggingFace(), '--save', `${huggingFace()}-more`, '--metrics-jsonl', metrics],
      ...[...ofRun, '--lr', '5e-3', '--train-iters', '2', '--eval-iters', '2', '--verbose'],
    ]);
    expect(again.output).toContain('loaded the weights of');
    expect(again.output).toMatch(/^ {4}layer-norm-placement +post +Hugging Face directory /m);
    expect(again.code).toBe(0);
    expect(readMetrics(metrics)[0]!.lm_loss).toBeLessThan(3.5); // an untrained model has ln 100 = 4.6
  });
});

describe('wrong input ends with one coded error and status 2, before the first step', () => {
  const cases: ReadonlyArray<readonly [name: string, flags: () => string[], expected: RegExp]> = [
    ['a flag of GPT', () => ['--eod-mask-loss'], /error\[MTL_FLAG_MODEL\].*--eod-mask-loss.*a flag of GPT/],
    ['a preset of GPT', () => ['--preset', 'gpt2-124m'], /error\[MTL_PRESET\].*preset of GPT.*bert-base/],
    ['nothing to mask', () => ['--mask-prob', '0'], /error\[MTL_DATA_MASKING\].*0\.15/],
    [
      'a tokenizer without a mask',
      () => ['--tokenizer-type', 'ByteLevelTokenizer'],
      /error\[MTL_FLAG_NEEDS\].*vocab-file/s,
    ],
    [
      'layer norms that Hugging Face cannot hold',
      () => ['--save-hf', locate('never')],
      /error\[MTL_HUGGING_FACE_LAYER_NORM\].*--layer-norm-placement post/s,
    ],
  ];
  it.each(cases)('%s', async (_, flags, expected) => {
    expectRefused(await train([...flags(), '--save', locate('wrong')]), expected);
  });

  it('a vocabulary without [MASK]', async () => {
    const vocabFile = locate('unmasked.txt');
    writeFileSync(vocabFile, readFileSync(locate('vocab.txt'), 'utf8').replace('[MASK]', '[NONE]'));
    const run = await train(['--vocab-file', vocabFile, '--save', locate('wrong')]);
    expectRefused(run, /error\[MTL_DATA_SPECIAL_TOKEN\].*no token \[MASK\]/);
  });

  it('a corpus without sentences', async () => {
    const inputs = [locate('sentences.txt')];
    const tokenizer = { type: 'BertWordPieceLowerCase', vocabFile: locate('vocab.txt') } as const;
    const { prefix } = await prepareDataset({ inputs, outputPrefix: locate('whole-documents'), tokenizer });
    const run = await train(['--data-path', prefix, '--save', locate('wrong')]);
    expectRefused(run, /error\[MTL_DATA_NO_SENTENCES\].*--split-sentences/s);
  });

  function expectRefused(run: Awaited<ReturnType<typeof train>>, expected: RegExp): void {
    expect(run.output).toMatch(expected);
    expect(run.output).not.toContain('    at ');
    expect(run.output).not.toContain('iteration        1/');
    expect(run.code).toBe(2);
    expect(existsSync(locate('wrong'))).toBe(false);
  }
});
