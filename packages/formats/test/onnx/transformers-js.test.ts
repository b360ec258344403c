import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  askTransformersJs,
  hasTransformersJs,
  type TransformersJsAnswer,
} from '@mtl/tooling/ask-transformers-js';
import { reportEngine } from '@mtl/tooling/report-engine';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type OnnxDtype, writeOnnxGpt } from '../../src/onnx/index.js';
import { randomModel, type TinyModel, tokenizerFiles } from '../gguf/tiny-models.js';
import { type ModelName, models } from './models.js';

const scratch = mkdtempSync(join(tmpdir(), 'mtl-onnx-'));
afterAll(() => rmSync(scratch, { recursive: true }));

const tokens = [5, 260, 17, 0, 99, 266, 42, 7, 256, 201, 33, 8, 90, 4, 263, 150, 81, 2, 2, 64];
/** Prompts of several lengths: all but the longest are padded on the left. */
const prompts = [tokens, tokens.slice(5, 12), tokens.slice(0, 1)];
const names = Object.keys(models) as ModelName[];

const skipped = '(npm run dev -- transformers-js installs it)';

async function write(
  tiny: TinyModel,
  name: string,
  options: { readonly dtypes?: readonly OnnxDtype[]; readonly mostFileBytes?: number } = {},
): Promise<string> {
  const directory = join(scratch, name);
  const { model, tensors } = tiny;
  await writeOnnxGpt({ directory, model, tensors, tokenizerFiles, endTokens: [266], ...options });
  return directory;
}

/** The differences of log-probabilities over all positions and tokens. */
function measureDifference(expected: readonly Float64Array[], logits: readonly (readonly number[])[]) {
  expect(logits.map(({ length }) => length)).toEqual(expected.map(({ length }) => length));
  const all = expected.flatMap((row, position) => {
    const own = logits[position]!;
    const most = Math.max(...own);
    const sum = most + Math.log(own.reduce((total, logit) => total + Math.exp(logit - most), 0));
    return [...row].map((value, token) => Math.abs(value - (own[token]! - sum)));
  });
  return { most: Math.max(...all), mean: all.reduce((sum, one) => sum + one, 0) / all.length };
}

/** Float32 on both sides, summed in another order. */
const bound = 1e-4;

/**
 * Returns the most likely tokens after a prompt, until the two best differ by less than twice the bound, from
 * where on any token is right.
 */
function greedyTokens(tiny: TinyModel, prompt: readonly number[], count: number): readonly unknown[] {
  const found: number[] = [];
  for (let index = 0; index < count; index++) {
    const row = tiny.logProbabilities([...prompt, ...found]).at(-1)!;
    const [best, second] = [...row.keys()].sort((one, other) => row[other]! - row[one]!);
    if (row[best!]! - row[second!]! < 2 * bound) {
      return [...found, ...Array.from({ length: count - index }, () => expect.anything())];
    }
    found.push(best!);
  }
  return found;
}

describe.skipIf(!hasTransformersJs)(`transformers.js ${skipped}`, () => {
  const numTokens = 12;
  let answers: ReadonlyMap<ModelName, readonly TransformersJsAnswer[]>;

  beforeAll(async () => {
    const questions = [];
    for (const name of names) {
      using tiny = await randomModel(models[name]);
      const directory = await write(tiny, name);
      questions.push({ directory, sequences: prompts }, { directory, sequences: prompts, count: numTokens });
    }
    const found = askTransformersJs(questions);
    answers = new Map(names.map((name, index) => [name, found.slice(2 * index, 2 * index + 2)]));
    reportEngine('transformers.js');
  }, 300_000);

  it.each(names)('computes the logits of %s, and its most likely tokens, in padded batches', async (name) => {
    using tiny = await randomModel(models[name]);
    const [{ logits }, { greedy }] = answers.get(name)! as [TransformersJsAnswer, TransformersJsAnswer];
    for (const [index, prompt] of prompts.entries()) {
      expect(measureDifference(tiny.logProbabilities(prompt), logits[index]!).most).toBeLessThan(bound);
      expect(greedy[index]).toEqual(greedyTokens(tiny, prompt, numTokens));
    }
  });
});

/**
 * Bounds of the mean difference of log-probabilities, twice what was measured. These weights are random, of a
 * hidden size of 64: each logit is a sum of few products, with little to average errors out. fp16: 11 bits,
 * of activations too. q8: weights and inputs in 8 bits. q4: weights in 4 bits. In tied models logits are
 * about ten times as large, and their errors with them.
 */
const bounds = { fp16: 1.2e-3, q8: 5e-2, q4: 0.3 } as const;
const timesTied = 10;

describe.skipIf(!hasTransformersJs)(`transformers.js with other dtypes ${skipped}`, () => {
  const dtypes = Object.keys(bounds) as (keyof typeof bounds)[];
  const written = ['gpt2', 'gpt2-untied', 'llama', 'qwen3', 'qwen3-moe', 'clamped-experts'] as const;
  const cases = dtypes.flatMap((dtype) => written.map((name) => [dtype, name] as const));
  let answers: readonly TransformersJsAnswer[];

  beforeAll(async () => {
    const directories = new Map<string, string>();
    for (const name of written) {
      using tiny = await randomModel(models[name]);
      directories.set(name, await write(tiny, `${name}-all`, { dtypes: ['fp32', ...dtypes] }));
    }
    answers = askTransformersJs(
      cases.map(([dtype, name]) => ({ directory: directories.get(name)!, dtype, sequences: [tokens] })),
    );
  }, 300_000);

  it.each(cases.map((one, index) => [...one, index] as const))(
    'computes %s of %s',
    async (dtype, name, index) => {
      using tiny = await randomModel(models[name]);
      const { mean } = measureDifference(tiny.logProbabilities(tokens), answers[index]!.logits[0]!);
      const times = tiny.model.tieEmbeddings ? timesTied : 1;
      expect(mean).toBeLessThan(times * bounds[dtype]);
      // so that a file with other weights would not pass for one of this dtype
      expect(mean).toBeGreaterThan(1e-6);
    },
  );
});

describe.skipIf(!hasTransformersJs)(`transformers.js with large weights ${skipped}`, () => {
  it('reads weights that are in several files', async () => {
    using tiny = await randomModel(models.llama);
    const directory = await write(tiny, 'several', { dtypes: ['fp32', 'q8'], mostFileBytes: 40_000 });
    const questions = ['fp32', 'q8'].map((dtype) => ({ directory, dtype, sequences: [tokens] }));
    const [whole, bytes] = askTransformersJs(questions) as [TransformersJsAnswer, TransformersJsAnswer];
    const expected = tiny.logProbabilities(tokens);
    expect(measureDifference(expected, whole.logits[0]!).most).toBeLessThan(bound);
    expect(measureDifference(expected, bytes.logits[0]!).mean).toBeLessThan(bounds.q8);
  }, 60_000);

  it('runs a pipeline on texts of several lengths', async () => {
    using tiny = await randomModel(models.gpt2);
    const directory = await write(tiny, 'texts');
    const texts = ['the thing', 'an'];
    const settings = { max_new_tokens: 6, do_sample: false };
    const [{ results }] = askTransformersJs([
      {
        directory,
        pipeline: {
          task: 'text-generation',
          calls: [[texts, settings], ...texts.map((text) => [text, settings])],
        },
      },
    ]) as [TransformersJsAnswer];
    const [together, ...alone] = results;
    expect(together).toEqual(alone);
    for (const [index, text] of texts.entries()) {
      const [{ generated_text: generated }] = alone[index];
      expect(generated.startsWith(text)).toBe(true);
      expect(generated.length).toBeGreaterThan(text.length);
    }
  }, 60_000);
});
