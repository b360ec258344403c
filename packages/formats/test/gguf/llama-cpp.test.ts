import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  askLlamaCpp,
  hasLlamaCpp,
  type LlamaCppAnswer,
  readWithHuggingFace,
} from '@mtl/tooling/ask-llama-cpp';
import { reportEngine } from '@mtl/tooling/report-engine';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type GgufDtype, readGguf, writeGguf, writeGgufBert, writeGgufLora } from '../../src/gguf/index.js';
import { parseBert, randomBert, vocabulary } from './tiny-bert.js';
import {
  configurations,
  emptyModel,
  lora,
  merged,
  parseModel,
  randomModel,
  type TinyModel,
  type TinyModelName,
  tinyModelNames,
  tokenizerFiles,
  withAdapters,
} from './tiny-models.js';

const scratch = mkdtempSync(join(tmpdir(), 'mtl-gguf-'));
afterAll(() => rmSync(scratch, { recursive: true }));

const tokens = [5, 260, 17, 0, 99, 266, 42, 7, 256, 201, 33, 8, 90, 4, 263, 150, 81, 2, 2, 64];

const locate = (name: TinyModelName, kind: string): string => join(scratch, `${name}-${kind}.gguf`);
const makeOrigin = (name: TinyModelName) => ({
  config: { model_type: configurations[name].model_type, license: 'apache-2.0' },
});

async function write(tiny: TinyModel, name: TinyModelName, dtype: GgufDtype = 'float32'): Promise<string> {
  const path = locate(name, dtype);
  const { model, tensors } = tiny;
  const origin = makeOrigin(name);
  await writeGguf({ path, model, tensors, dtype, tokenizerFiles, endTokens: [266], origin, name });
  return path;
}

/** The difference of log-probabilities over all positions and tokens. */
interface Difference {
  readonly most: number;
  readonly mean: number;
}

function measureDifference(
  expected: readonly Float64Array[],
  actual: readonly (readonly number[])[],
): Difference {
  expect(actual.map(({ length }) => length)).toEqual(expected.map(({ length }) => length));
  const all = expected.flatMap((row, position) =>
    [...row].map((value, token) => Math.abs(value - actual[position]![token]!)),
  );
  return { most: Math.max(...all), mean: all.reduce((sum, one) => sum + one, 0) / all.length };
}

/** The bound of float32: llama.cpp computes GELU by a table of float16. */
const chooseBound = (name: TinyModelName): number => (name.startsWith('gpt2') ? 2e-2 : 2e-3);

/**
 * Returns the most likely tokens after a start, until the two best differ by less than twice the bound, from
 * where on any token is right.
 */
function greedyTokens(
  tiny: TinyModel,
  start: readonly number[],
  { count, bound }: { readonly count: number; readonly bound: number },
): readonly unknown[] {
  const found: number[] = [];
  for (let index = 0; index < count; index++) {
    const row = tiny.logProbabilities([...start, ...found]).at(-1)!;
    const [best, second] = [...row.keys()].sort((one, other) => row[other]! - row[one]!);
    if (row[best!]! - row[second!]! < 2 * bound) {
      return [...found, ...Array.from({ length: count - index }, () => expect.anything())];
    }
    found.push(best!);
  }
  return found;
}

describe.skipIf(!hasLlamaCpp)('llama.cpp (npm run dev -- llama-cpp installs it)', () => {
  const start = tokens.slice(0, 4);
  let answers: ReadonlyMap<TinyModelName, LlamaCppAnswer>;

  beforeAll(async () => {
    const questions = [];
    for (const name of tinyModelNames) {
      using tiny = await randomModel(parseModel(configurations[name]));
      const path = await write(tiny, name);
      questions.push({ path, sequences: [{ tokens }, { tokens: start, count: 12 }] });
    }
    const found = askLlamaCpp(questions);
    answers = new Map(tinyModelNames.map((name, index) => [name, found[index]!]));
    reportEngine('llama.cpp');
  }, 300_000);

  it.each(tinyModelNames)(
    'computes the log-probabilities of %s, and its most likely tokens',
    async (name) => {
      using tiny = await randomModel(parseModel(configurations[name]));
      const { probabilities, greedy } = answers.get(name)!;
      const bound = chooseBound(name);
      expect(measureDifference(tiny.logProbabilities(tokens), probabilities[0]!).most).toBeLessThan(bound);
      expect(greedy[0]!.length).toBeGreaterThan(0);
      expect(greedy[0]).toEqual(greedyTokens(tiny, start, { count: greedy[0]!.length, bound }));
    },
  );
});

/**
 * Bounds of the largest difference, with GELU and without, of the dtypes that are read back: llama.cpp is
 * compared with the weights as they are stored, and rounds the activations of each matmul too: to float16, to
 * bfloat16, to 8 bits. Twice what was measured.
 */
const readable = { float16: [4e-2, 4e-3], bfloat16: [4e-1, 4e-2], q8_0: [1, 2e-1] } as const;

/**
 * Bounds of the mean difference of the other dtypes, against weights that were not rounded. That their blocks
 * are right is compared byte for byte elsewhere.
 */
const others = { q4_0: [2.5, 0.4], q4_k_m: [1.2, 0.2] } as const;

const boundFor = ([gelu, silu]: readonly [number, number], name: TinyModelName): number =>
  name.startsWith('gpt2') ? gelu : silu;

describe.skipIf(!hasLlamaCpp)('llama.cpp with other dtypes (npm run dev -- llama-cpp installs it)', () => {
  const names = ['gpt2', 'llama', 'mixtral'] as const;
  const dtypes = [...Object.keys(readable), ...Object.keys(others)] as (
    | keyof typeof readable
    | keyof typeof others
  )[];
  const cases = dtypes.flatMap((dtype) => names.map((name) => [dtype, name] as const));
  let answers: readonly LlamaCppAnswer[];

  beforeAll(async () => {
    const questions = [];
    for (const [dtype, name] of cases) {
      using tiny = await randomModel(parseModel(configurations[name]));
      questions.push({ path: await write(tiny, name, dtype), sequences: [{ tokens }] });
    }
    answers = askLlamaCpp(questions);
  }, 300_000);

  it.each(cases.map((one, index) => [...one, index] as const))(
    'computes with %s of %s',
    async (dtype, name, index) => {
      const [row] = answers[index]!.probabilities;
      if (dtype === 'q4_0' || dtype === 'q4_k_m') {
        using tiny = await randomModel(parseModel(configurations[name]));
        const { mean } = measureDifference(tiny.logProbabilities(tokens), row!);
        expect(mean).toBeLessThan(boundFor(others[dtype], name));
        return;
      }
      await using found = await readGguf(locate(name, dtype));
      using stored = emptyModel(found.configuration);
      await found.load(stored.tensors);
      const { most } = measureDifference(stored.logProbabilities(tokens), row!);
      expect(most).toBeLessThan(boundFor(readable[dtype], name));
    },
  );

  it.each(['gpt2', 'llama'] as const)('has another reader that finds the same in %s', async (name) => {
    const { metadata, tensorInfos } = await readWithHuggingFace(locate(name, 'q8_0'));
    expect(metadata).toMatchObject({
      'general.architecture': name,
      'general.name': name,
      'general.license': 'apache-2.0',
      'general.file_type': 7,
      'tokenizer.ggml.eos_token_id': 266,
      'tokenizer.chat_template': '{{ messages }}',
      [`${name}.context_length`]: 64,
    });
    const embedding = tensorInfos.find((tensor) => tensor.name === 'token_embd.weight');
    expect(embedding).toMatchObject({ shape: [64n, 267n], dtype: 8 });
  });
});

describe.skipIf(!hasLlamaCpp)('llama.cpp with adapters (npm run dev -- llama-cpp installs it)', () => {
  const names = ['gpt2', 'llama', 'mixtral', 'qwen2-moe', 'qwen3'] as const;
  let answers: readonly LlamaCppAnswer[];

  beforeAll(async () => {
    const questions = [];
    for (const name of names) {
      using tiny = await randomModel(parseModel(configurations[name]));
      const [path, adapter] = [locate(name, 'base'), locate(name, 'lora')];
      const { model, tensors } = tiny;
      const origin = makeOrigin(name);
      await writeGguf({ path, model, tensors, tokenizerFiles, endTokens: [266], origin });
      await writeGgufLora({ path: adapter, model, lora, tensors: withAdapters(tiny), origin });
      questions.push({ path, adapter, sequences: [{ tokens }] });
    }
    answers = askLlamaCpp(questions);
  }, 300_000);

  it.each(names.map((name, index) => [name, index] as const))('adds them to %s', async (name, index) => {
    using tiny = await randomModel(parseModel(configurations[name]));
    using whole = await merged(tiny);
    const expected = whole.logProbabilities(tokens);
    expect(measureDifference(expected, answers[index]!.probabilities[0]!).most).toBeLessThan(
      chooseBound(name),
    );
    // without adapters, the result is another one
    const alone = tiny.logProbabilities(tokens).map((row) => [...row]);
    expect(measureDifference(expected, alone).most).toBeGreaterThan(0.1);
  });
});

describe.skipIf(!hasLlamaCpp)('llama.cpp with a BERT (npm run dev -- llama-cpp installs it)', () => {
  const texts = ['The cat sat on a mat.', 'Élan! 中国 unaffable, running dogs', '1123 3', 'elan DOG xyz'];
  const lowered = [
    'the cat sat on a mat .',
    'elan ! 中 国 un ##aff ##able , run ##ning dog ##s',
    '[UNK] [UNK]',
    'elan dog [UNK]',
  ];
  const cased = [
    '[UNK] cat sat on a mat .',
    'Élan ! 中 国 un ##aff ##able , run ##ning dog ##s',
    '[UNK] [UNK]',
    'elan [UNK] [UNK]',
  ];
  const findIds = (text: string): number[] => text.split(' ').map((token) => vocabulary.indexOf(token));

  it.each([
    ['gelu_new', true],
    ['gelu', false],
  ] as const)(
    'with %s gives the mean of its outputs, its letters lowered: %s',
    { timeout: 120_000 },
    async (hidden_act, lowersCase) => {
      using bert = await randomBert(parseBert({ hidden_act }));
      const path = join(scratch, `${hidden_act}.gguf`);
      const { model, tensors } = bert;
      const files = { 'vocab.txt': { contents: vocabulary.join('\n') } };
      await writeGgufBert({ path, model, tensors, tokenizerFiles: files, lowersCase });
      const [answer] = askLlamaCpp([{ path, texts, embed: texts }]);
      const { embeddings, texts: found } = answer!;
      const expected = (lowersCase ? lowered : cased).map(findIds);
      expect(found).toEqual(expected);
      for (const [index, ids] of expected.entries()) {
        const own = await bert.embedding([vocabulary.indexOf('[CLS]'), ...ids, vocabulary.indexOf('[SEP]')]);
        const length = Math.hypot(...embeddings[index]!);
        const worst = own.reduce(
          (far, value, at) => Math.max(far, Math.abs(value - embeddings[index]![at]! / length)),
          0,
        );
        // features of a vector of length 1; llama.cpp computes GELU by a table of float16
        expect(worst).toBeLessThan(1e-3);
      }
    },
  );
});
