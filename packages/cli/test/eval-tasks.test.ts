import { cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { loadGptForInference } from '@mtl/runs';
import { afterAll, describe, expect, it } from 'vitest';
import { accuracies, scoredQuestions } from '../src/commands/eval/tasks/choice-task.js';
import { spawnMtl } from './support/spawn-mtl.js';
import { temporaryDirectory } from './support/temporary-directory.js';

const directory = temporaryDirectory();
const cwd = directory.path;
afterAll(() => directory.dispose());

const fixtures = fileURLToPath(new URL('../fixtures/evaluation-tasks/', import.meta.url));
// the public files are not part of the repository
const publicFiles = fileURLToPath(new URL('../../../../shared/data/', import.meta.url));
const model = ['--load-hf', join(fixtures, 'model')];

interface Wikitext {
  readonly words: number;
  readonly tokens_scored: number;
  readonly [stride: `stride_${number}`]: {
    readonly negative_log_likelihood: number;
    readonly perplexity: number;
    readonly adjusted_perplexity: number;
  };
}

interface Lambada {
  readonly examples: number;
  readonly correct: number;
  readonly shortened: number;
}

/** Results of tooling/fixtures/evaluation_tasks.py: a plain evaluation by PyTorch, in float64. */
const expected = JSON.parse(readFileSync(join(fixtures, 'expected.json'), 'utf8')) as {
  readonly wikitext: Wikitext;
  readonly wikitext2_valid: Wikitext;
  readonly lambada: Lambada;
  readonly lambada_test: Lambada;
};

/** Returns the first 400 lines of a public file, which the script took. */
function copyBeginning(name: string): string {
  const path = join(cwd, name);
  const lines = readFileSync(join(publicFiles, name), 'utf8').split('\n').slice(0, 400);
  writeFileSync(path, `${lines.join('\n')}\n`);
  return path;
}

async function evaluate(argv: readonly string[], env = {}): Promise<Record<string, number>> {
  const { status, stdout, stderr } = await spawnMtl(['eval', '--json', ...argv], { cwd, env });
  expect(stderr).toBe('');
  expect(status).toBe(0);
  return JSON.parse(stdout) as Record<string, number>;
}

function expectWikitext(report: Record<string, number>, reference: Wikitext, stride: number): void {
  const result = reference[`stride_${stride}`]!;
  expect(report).toMatchObject({
    task: 'wikitext',
    sequenceLength: 96,
    stride,
    numOriginalTokens: reference.words,
    numScored: reference.tokens_scored,
  });
  // float32 against float64: the allowed difference of losses from PyTorch
  const near = (actual: number | undefined, value: number): void =>
    expect(Math.abs(actual! / value - 1)).toBeLessThan(1e-5);
  near(report.negativeLogLikelihood, result.negative_log_likelihood);
  near(Math.log(report.perplexity!), Math.log(result.perplexity));
  near(Math.log(report.adjustedPerplexity!), Math.log(result.adjusted_perplexity));
  near(Math.log(report.tokenPerplexity!), result.negative_log_likelihood / reference.tokens_scored);
}

describe('mtl eval --task wikitext', () => {
  const wikitext = [...model, '--task', 'wikitext', '--valid-data', join(fixtures, 'wikitext.txt')];

  it('gives what PyTorch gives, by the stride of the paper unless told otherwise', async () => {
    expectWikitext(await evaluate(wikitext), expected.wikitext, 32);
    expectWikitext(await evaluate([...wikitext, '--overlapping-eval', '96']), expected.wikitext, 96);
  });

  it('shows a table', async () => {
    const { stdout } = await spawnMtl(['eval', ...wikitext], { cwd });
    const { perplexity, adjusted_perplexity: adjusted } = expected.wikitext.stride_32!;
    expect(stdout).toMatch(/, wikitext, windows of 96 tokens, moving by 32\n.*wikitext\.txt\n/);
    const shown = (name: string): number =>
      Number(new RegExp(`^ +${name} +(\\d+\\.\\d{3})$`, 'm').exec(stdout)?.[1]);
    // as `near` above: the last digits depend on the instruction set
    expect(shown('perplexity') / perplexity).toBeCloseTo(1, 5);
    expect(shown("perplexity by Megatron's code") / adjusted).toBeCloseTo(1, 5);
  });

  it.skipIf(!existsSync(publicFiles))('gives what PyTorch gives for WikiText-2', async () => {
    const file = copyBeginning('wikitext2_valid.txt');
    const argv = [...model, '--task', 'wikitext', '--valid-data', file, '--overlapping-eval', '96'];
    expectWikitext(await evaluate([...argv, '--micro-batch-size', '64']), expected.wikitext2_valid, 96);
  });
});

describe('mtl eval --task lambada', () => {
  const lambada = [...model, '--task', 'lambada'];
  const own = [...lambada, '--valid-data', join(fixtures, 'lambada.jsonl')];
  const counts = ({ examples, correct, shortened }: Lambada) => ({
    numExamples: examples,
    numCorrect: correct,
    numShortened: shortened,
    accuracy: correct / examples,
  });

  it('guesses the words that PyTorch guesses', async () => {
    expect(await evaluate(own)).toMatchObject({ task: 'lambada', ...counts(expected.lambada) });
    // the fixture must tell right from wrong
    expect(expected.lambada.correct).toBeGreaterThan(5);
    expect(expected.lambada.correct).toBeLessThan(expected.lambada.examples - 5);
  });

  it('shows a table', async () => {
    const { stdout } = await spawnMtl(['eval', ...own], { cwd });
    const { correct, examples } = expected.lambada;
    expect(stdout).toMatch(/, lambada\n.*lambada\.jsonl\n/);
    expect(stdout).toContain(`accuracy            ${((100 * correct) / examples).toFixed(2)} %\n`);
    expect(stdout).toContain(`passages            ${examples}\n`);
  });

  it.skipIf(!existsSync(publicFiles))(
    'guesses the words of the real test set that PyTorch guesses',
    async () => {
      const file = copyBeginning('lambada_test.jsonl');
      const report = await evaluate([...lambada, '--valid-data', file, '--micro-batch-size', '64']);
      expect(report).toMatchObject(counts(expected.lambada_test));
    },
  );
});

/**
 * Results of tooling/fixtures/choice_tasks.py: lm-evaluation-harness on the same questions, with the same
 * model.
 */
const choiceFixtures = fileURLToPath(new URL('../fixtures/choice-tasks/', import.meta.url));
const expectedChoices = JSON.parse(readFileSync(join(choiceFixtures, 'expected.json'), 'utf8')) as Readonly<
  Record<
    string,
    { readonly acc: number; readonly acc_norm?: number; readonly log_likelihoods: readonly number[][] }
  >
>;

describe('mtl eval --task of multiple choice', async () => {
  const loadHuggingFace = join(fixtures, 'model');
  const loaded = await loadGptForInference({ loadHuggingFace, device: 'cpu', onNotice: () => {} });
  afterAll(() => loaded.dispose());

  it.each(Object.keys(expectedChoices))(
    'gives what lm-evaluation-harness gives, answer by answer: %s',
    async (name) => {
      const path = join(choiceFixtures, `${name}.jsonl`);
      const { log_likelihoods: likelihoods, ...shares } = expectedChoices[name]!;
      const scored = await scoredQuestions(name, { path, loaded, batchSize: 4, onProgress: () => {} });
      // float32 on both sides: the allowed difference of losses from PyTorch
      const errors = likelihoods.flat().map((value, index) => scored.logProbabilities[index]! / value - 1);
      expect(errors.length).toBe(scored.logProbabilities.length);
      expect(Math.max(...errors.map(Math.abs))).toBeLessThan(1e-5);
      expect(accuracies(scored.questions, scored.logProbabilities)).toEqual(shares);
    },
  );

  it('takes the labels of PIQA from a file of their own', async () => {
    const lines = readFileSync(join(choiceFixtures, 'piqa.jsonl'), 'utf8').trim().split('\n');
    const rows = lines.map((line) => JSON.parse(line) as { label: number });
    const file = join(cwd, 'valid.jsonl');
    writeFileSync(file, rows.map((row) => `${JSON.stringify({ ...row, label: undefined })}\n`).join(''));
    writeFileSync(join(cwd, 'valid-labels.lst'), rows.map(({ label }) => `${label}\r\n`).join(''));
    const { acc, acc_norm } = expectedChoices.piqa!;
    expect(await evaluate([...model, '--task', 'piqa', '--valid-data', file])).toMatchObject({
      acc,
      acc_norm,
      numQuestions: 20,
      numShortened: 0,
    });
  });
});

/** A tokenizer whose post-processor begins texts with a token, by tooling/fixtures/start_of_text.py. */
const startOfText = JSON.parse(readFileSync(join(fixtures, 'start-of-text.json'), 'utf8')) as {
  readonly post_processor: object;
  readonly arc_easy: readonly number[][];
  readonly lambada: { readonly correct: number };
  readonly text: { readonly tokens_scored: number; readonly negative_log_likelihood: number };
};

describe('mtl eval with a tokenizer that begins texts with a token', () => {
  const copy = join(cwd, 'start-of-text');
  cpSync(join(fixtures, 'model'), copy, { recursive: true });
  const tokenizer = JSON.parse(readFileSync(join(copy, 'tokenizer.json'), 'utf8')) as object;
  const { post_processor } = startOfText;
  writeFileSync(join(copy, 'tokenizer.json'), JSON.stringify({ ...tokenizer, post_processor }));
  const passages = join(fixtures, 'lambada.jsonl');

  it('scores answers after it', async () => {
    const loaded = await loadGptForInference({ loadHuggingFace: copy, device: 'cpu', onNotice: () => {} });
    const path = join(choiceFixtures, 'arc-easy.jsonl');
    const scored = await scoredQuestions('arc-easy', { path, loaded, batchSize: 4, onProgress: () => {} });
    loaded.dispose();
    const reference = startOfText.arc_easy.flat();
    // float32 against float64: the allowed difference of losses from PyTorch
    const errors = reference.map((value, index) => Math.abs(scored.logProbabilities[index]! / value - 1));
    expect(Math.max(...errors)).toBeLessThan(1e-5);
  });

  it('guesses words after it', async () => {
    const report = await evaluate(['--load-hf', copy, '--task', 'lambada', '--valid-data', passages]);
    expect(report.numCorrect).toBe(startOfText.lambada.correct);
    expect(report.numCorrect).not.toBe(expected.lambada.correct);
  });

  it('begins every document with it and predicts it nowhere', async () => {
    const { tokens_scored: numScored, negative_log_likelihood: sum } = startOfText.text;
    const report = (await evaluate(['--load-hf', copy, '--text', passages])) as unknown as {
      readonly total: { readonly numScored: number; readonly negativeLogLikelihood: number };
    };
    expect(report.total.numScored).toBe(numScored);
    // as above
    expect(Math.abs(report.total.negativeLogLikelihood / sum - 1)).toBeLessThan(1e-5);
  });

  it('predicts all tokens of a WikiText file', async () => {
    const file = ['--task', 'wikitext', '--valid-data', join(fixtures, 'wikitext.txt')];
    const report = await evaluate(['--load-hf', copy, ...file]);
    expect(report.numScored).toBe(expected.wikitext.tokens_scored + 1);
  });
});

describe('mtl eval on two processes', () => {
  it.each(['--tensor-model-parallel-size', '--context-parallel-size', '--pipeline-model-parallel-size'])(
    'gives what one gives, and one rank reports: %s 2',
    async (size) => {
      for (const [task, file] of [
        ['wikitext', 'wikitext.txt'],
        ['lambada', 'lambada.jsonl'],
      ] as const) {
        const flags = [...model, '--task', task, '--valid-data', join(fixtures, file), '--json'];
        const { status, stdout, stderr } = await spawnMtl(
          ['run', '--nproc-per-node', '2', 'mtl', '--', 'eval', ...flags, size, '2'],
          { cwd },
        );
        expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
        const reports = stdout.trim().split('\n');
        expect(reports.length).toBe(1);
        const report = JSON.parse(/\{.*\}/.exec(reports[0]!)![0]) as Record<string, number>;
        if (task === 'wikitext') expectWikitext(report, expected.wikitext, 32);
        else expect(report.numCorrect).toBe(expected.lambada.correct);
      }
    },
  );
});

describe('mtl eval refuses', () => {
  const task = (name: string, ...rest: string[]): string[] => [...model, '--task', name, ...rest];
  const lines = (name: string, text: string): string => {
    const path = join(cwd, name);
    writeFileSync(path, text);
    return path;
  };
  const wikitext = join(fixtures, 'wikitext.txt');
  lines('few-labels.lst', '0\n1\n');

  it.each<[what: string, argv: string[], code: string, says: string]>([
    ['a task that is none', task('lamda', '--valid-data', 'x'), 'MTL_FLAG_VALUE', 'pass --task lambada'],
    ['a task without its file', task('lambada'), 'MTL_FLAG_REQUIRED', '--valid-data FILE'],
    [
      'a file without a task',
      [...model, '--valid-data', 'x.txt'],
      'MTL_FLAG_NEEDS',
      '--task wikitext | lambada',
    ],
    [
      'text in addition to a task',
      task('lambada', '--valid-data', 'x', '--text', 'y'),
      'MTL_FLAG_CONFLICT',
      '--text',
    ],
    [
      'windows for lambada',
      task('lambada', '--valid-data', 'x', '--overlapping-eval', '4'),
      'MTL_FLAG_CONFLICT',
      'no windows',
    ],
    [
      'a file that is not there',
      task('lambada', '--valid-data', 'none.jsonl'),
      'MTL_EVALUATION_DATA',
      'none.jsonl',
    ],
    ['passages in plain text', task('lambada', '--valid-data', wikitext), 'MTL_EVALUATION_DATA', '.jsonl'],
    [
      'a passage of one word',
      task('lambada', '--valid-data', lines('short.jsonl', '{"text": "two words"}\n{"text": " one "}\n')),
      'MTL_EVALUATION_DATA',
      'passage 2 has fewer than two words',
    ],
    [
      'a line that is no JSON',
      task('lambada', '--valid-data', lines('broken.jsonl', '{"text": "two words"}\n{"text\n')),
      'MTL_DATA_CORPUS',
      'line 2',
    ],
    [
      'no passages',
      task('lambada', '--valid-data', lines('empty.jsonl', '')),
      'MTL_EVALUATION_DATA',
      'no passage',
    ],
    [
      'a question that is none',
      task('piqa', '--valid-data', lines('null.jsonl', 'null\n')),
      'MTL_EVALUATION_DATA',
      'question 1: is not a JSON object',
    ],
    [
      'labels of other questions',
      task('piqa', '--valid-data', lines('few.jsonl', '{}\n')),
      'MTL_EVALUATION_DATA',
      'few-labels.lst has 2 labels',
    ],
    [
      'a WikiText file that is none',
      task('wikitext', '--valid-data', cwd),
      'MTL_EVALUATION_DATA',
      'cannot be read',
    ],
    [
      'an empty WikiText file',
      task('wikitext', '--valid-data', lines('a.txt', ' ')),
      'MTL_EVALUATION_DATA',
      'hardly',
    ],
    [
      'a directory without adapters',
      [...model, '--text', wikitext, '--load-lora', cwd],
      'MTL_LORA_DIRECTORY',
      'adapter_config.json',
    ],
    [
      'a model for two processes in one',
      task('wikitext', '--valid-data', wikitext, '--tensor-model-parallel-size', '2'),
      'MTL_WORLD_SIZE',
      'mtl run --nproc-per-node 2',
    ],
  ])('%s', async (_, argv, code, says) => {
    const { status, stdout, stderr } = await spawnMtl(['eval', ...argv], { cwd });
    expect(stderr).toContain(`error[${code}]`);
    expect(stderr).toContain(says);
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
  });
});
