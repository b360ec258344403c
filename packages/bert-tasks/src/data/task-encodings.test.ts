import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import type { TaskDataset } from '@mtl/data';
import { createBatchLoader } from '@mtl/data';
import type { TaskTokenBatch } from '@mtl/layout';
import { createTokenizer, type Tokenizer } from '@mtl/tokenizers';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  bestSpans,
  encodeMultipleChoice,
  encodeSentencePairs,
  encodeSpans,
  readSquadFile,
  type SpanExamples,
} from '../index.js';

// Fixtures: tooling/fixtures/make-task-fixtures.py.

interface Sequence {
  tokens: number[];
  firstLength: number;
}
interface Window {
  id: string;
  offset: number;
  start: number;
  end: number;
  maximum: number[];
  tokens: number[];
  offsets: [number, number][];
}
interface Encodings {
  vocabulary: string[];
  encodings: { text: string; ids: number[]; offsets: [number, number][] }[];
}

const fixture = JSON.parse(
  gunzipSync(readFileSync(new URL('../../fixtures/task-encodings.json.gz', import.meta.url))).toString(),
) as {
  uncased: Encodings;
  cased: Encodings;
  pairs: (Sequence & { sequenceLength: number; first: string; second: string })[];
  choices: { article: string; question: string; options: string[]; sequences: Sequence[] }[];
  squad: unknown;
  spans: { sequenceLength: number; stride: number; query: number; windows: Window[] }[];
  long: { file: unknown; sequenceLength: number; stride: number; query: number; maximum: string[] };
  best: {
    nBest: number;
    longest: number;
    logits: { start: number[]; end: number[] }[];
    results: { id: string; null: number; noAnswer: number; candidates: [string, number, number][] }[];
  }[];
};

const directory = mkdtempSync(join(tmpdir(), 'mtl-data-'));
let uncased: Tokenizer;
let cased: Tokenizer;
let squad: SpanExamples;

beforeAll(async () => {
  const write = (name: string, text: string): string => {
    writeFileSync(join(directory, name), text);
    return join(directory, name);
  };
  const vocabulary = (name: 'uncased' | 'cased') =>
    write(`${name}.txt`, `${fixture[name].vocabulary.join('\n')}\n`);
  uncased = await createTokenizer({ type: 'BertWordPieceLowerCase', vocabFile: vocabulary('uncased') });
  cased = await createTokenizer({ type: 'BertWordPieceCase', vocabFile: vocabulary('cased') });
  squad = readSquadFile(write('squad.json', JSON.stringify(fixture.squad)));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** Converts Python's offsets, which count code points, to UTF-16 units. */
function inUnits(text: string, offsets: readonly (readonly [number, number])[]): [number, number][] {
  const characters = [...text];
  const unit = (codePoint: number) => characters.slice(0, codePoint).join('').length;
  return offsets.map(([start, end]) => [unit(start), unit(end)]);
}

/** Returns a row of a sample without its padding. */
function sequence(dataset: TaskDataset, sample: number, choice = 0): Sequence {
  const { tokens, tokenTypes, lengths, numChoices, sequenceLength } = dataset.sample(sample);
  const row = (values: Int32Array) =>
    Array.from({ length: sequenceLength }, (_, s) => values[s * numChoices + choice]!);
  const length = lengths[choice]!;
  expect(row(tokens).slice(length)).toEqual(Array(sequenceLength - length).fill(0));
  const types = row(tokenTypes);
  const firstLength = types.indexOf(1);
  expect(types).toEqual(types.map((_, s) => (s >= firstLength && s < length ? 1 : 0)));
  return { tokens: row(tokens).slice(0, length), firstLength };
}

describe('encodeWithOffsets', () => {
  it.each(['uncased', 'cased'] as const)("gives transformers' ids and offsets (%s)", (name) => {
    const tokenizer = name === 'uncased' ? uncased : cased;
    for (const { text, ids, offsets } of fixture[name].encodings) {
      const { ids: found, starts, ends } = tokenizer.encodeWithOffsets!(text);
      expect({ text, ids: found }).toEqual({ text, ids });
      expect({ text, ids: [...tokenizer.encode(text)] }).toEqual({ text, ids });
      expect(starts.map((start, i) => [start, ends[i]])).toEqual(inUnits(text, offsets));
    }
  });

  it('has the ids of encode and ordered places, for any text', () => {
    const part = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.string({ unit: 'grapheme' }),
      fc.constantFrom('License', 'Σ', '[MASK]', '\ud800', '\u0301', ' ', 'work-in-progress', '\u1d165'),
    );
    fc.assert(
      fc.property(fc.array(part), fc.boolean(), (parts, lowercase) => {
        const text = parts.join('');
        const tokenizer = lowercase ? uncased : cased;
        const { ids, starts, ends } = tokenizer.encodeWithOffsets!(text);
        expect(ids).toEqual([...tokenizer.encode(text)]);
        for (const [i, start] of starts.entries()) {
          expect(start).toBeLessThan(ends[i]!);
          expect(ends[i]).toBeLessThanOrEqual(text.length);
          if (i > 0) expect(start).toBeGreaterThanOrEqual(starts[i - 1]!);
        }
      }),
      { numRuns: 200, seed: 6 },
    );
  });

  it('is absent where words are split otherwise', async () => {
    expect((await createTokenizer({ type: 'GPT2BPETokenizer' })).encodeWithOffsets).toBeUndefined();
  });
});

describe('encodeSentencePairs', () => {
  it('truncates the longer text first and puts the special tokens', () => {
    for (const { sequenceLength, first, second, tokens, firstLength } of fixture.pairs) {
      const examples = [{ id: '0', first, second, label: 1, genre: undefined }];
      const dataset = encodeSentencePairs({ examples, tokenizer: uncased, sequenceLength });
      expect(sequence(dataset, 0)).toEqual({ tokens, firstLength });
    }
  });

  it('has labels only where all examples have one', () => {
    const example = (label: number | undefined) => ({
      id: '',
      first: 'a',
      second: 'b',
      label,
      genre: undefined,
    });
    const labels = (...all: (number | undefined)[]) =>
      encodeSentencePairs({ examples: all.map(example), tokenizer: uncased, sequenceLength: 8 }).sample(1)
        .labels;
    expect(labels(0, 2)).toEqual(Int32Array.of(2));
    expect(labels(undefined, undefined)).toBeUndefined();
  });

  it('refuses sequences without room and vocabularies without [CLS]', async () => {
    expect(() => encodeSentencePairs({ examples: [], tokenizer: uncased, sequenceLength: 4 })).toThrow(
      expect.objectContaining({ code: 'MTL_DATA_SEQUENCE_LENGTH' }),
    );
    const bytes = await createTokenizer({ type: 'ByteLevelTokenizer' });
    expect(() => encodeSentencePairs({ examples: [], tokenizer: bytes, sequenceLength: 8 })).toThrow(
      expect.objectContaining({ code: 'MTL_DATA_SPECIAL_TOKEN' }),
    );
  });
});

describe('encodeMultipleChoice', () => {
  const examples = () =>
    fixture.choices.map(({ article, question, options }, i) => {
      const names = { passage: `high${i}.txt`, question: 0, level: undefined };
      return { ...names, article, questionText: question, options, label: i };
    });

  it('puts the option into the question and the article behind it', () => {
    const dataset = encodeMultipleChoice({
      examples: examples(),
      tokenizer: uncased,
      sequenceLength: 64,
      maximumQuestionLength: 24,
    });
    for (const [sample, { sequences }] of fixture.choices.entries()) {
      for (const [choice, expected] of sequences.entries()) {
        expect(sequence(dataset, sample, choice)).toEqual(expected);
      }
    }
  });

  it('lays the choices of a sample side by side, in a worker as well', async () => {
    const dataset = encodeMultipleChoice({ examples: examples(), tokenizer: uncased, sequenceLength: 64 });
    const loader = createBatchLoader({ dataset, sampler: { kind: 'single', microBatchSize: 3 } });
    for await (const batch of loader) {
      expect(batch).toMatchObject({ batchSize: 3, numChoices: 4, labels: Int32Array.of(0, 1, 2) });
      expect([...batch.sampleNumbers]).toEqual([0, 1, 2]);
      for (let sample = 0; sample < 3; sample++) {
        const alone = dataset.sample(sample);
        expect(batch.lengths.subarray(4 * sample, 4 * sample + 4)).toEqual(alone.lengths);
        for (let s = 0; s < 64; s++) {
          const row = 12 * s + 4 * sample;
          expect(batch.tokens.subarray(row, row + 4)).toEqual(alone.tokens.subarray(4 * s, 4 * s + 4));
        }
      }
    }
    expect(loader.statistics.batches).toBe(1);
  });
});

describe('encodeSpans', () => {
  const encoded = ({ sequenceLength, stride, query }: (typeof fixture.spans)[number]) =>
    encodeSpans({
      examples: squad.examples,
      tokenizer: uncased,
      sequenceLength,
      documentStride: stride,
      maximumQueryLength: query,
    });

  it('splits into windows with places, positions and maximum context', () => {
    for (const settings of fixture.spans) {
      const { dataset, windows } = encoded(settings);
      expect(windows).toHaveLength(settings.windows.length);
      expect(dataset.length).toBe(settings.windows.length);
      for (const [i, expected] of settings.windows.entries()) {
        const { example, offset, starts, ends, hasMaximumContext } = windows[i]!;
        const { id, context } = squad.examples[example]!;
        const { startPositions, endPositions } = dataset.sample(i);
        expect({
          id,
          offset,
          start: startPositions![0],
          end: endPositions![0],
          maximum: [...hasMaximumContext],
          tokens: sequence(dataset, i).tokens,
          offsets: Array.from(starts, (start, token) => [start, ends[token]!]),
        }).toEqual({ ...expected, offsets: inUnits(context, expected.offsets) });
      }
    }
    // Checks that the windows of the first settings split answers and contexts. Otherwise the fixture would
    // test little.
    const { windows } = fixture.spans[0]!;
    expect(windows.some(({ start }) => start > 0) && windows.some(({ start }) => start === 0)).toBe(true);
    expect(windows.length).toBeGreaterThan(3 * squad.examples.length);
  });

  it('counts the length of long windows in the maximum context', () => {
    const { file, sequenceLength, stride: documentStride, query: maximumQueryLength, maximum } = fixture.long;
    const path = join(directory, 'long.json');
    writeFileSync(path, JSON.stringify(file));
    const { examples } = readSquadFile(path);
    const settings = { tokenizer: uncased, sequenceLength, documentStride, maximumQueryLength };
    const { windows } = encodeSpans({ examples, ...settings });
    expect(windows.map(({ hasMaximumContext }) => hasMaximumContext.join(''))).toEqual(maximum);
  });

  it('gives positions exactly to the windows that hold all of the answer', () => {
    const context = 'a '.repeat(20);
    const places = Array.from({ length: 20 }, (_, i) => [1, 2, 5].map((length) => [i, i + length] as const));
    for (const [from, to] of places.flat().filter(([, end]) => end <= 20)) {
      const answers = [{ start: 2 * from, text: context.slice(2 * from, 2 * to - 1) }];
      const example = { id: '', question: 'a', context, answers };
      const lengths = { sequenceLength: 11, documentStride: 3, maximumQueryLength: 1 };
      const { dataset, windows } = encodeSpans({ examples: [example], tokenizer: uncased, ...lengths });
      for (const [i, { offset, starts }] of windows.entries()) {
        const first = starts[0]! / 2;
        const isInside = from >= first && to <= first + starts.length;
        const expected = isInside ? [offset + from - first, offset + to - 1 - first] : [0, 0];
        const { startPositions, endPositions } = dataset.sample(i);
        expect([startPositions![0], endPositions![0]]).toEqual(expected);
      }
    }
  });

  it('shows every token, and with the most context in exactly one window', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 70 }), fc.integer({ min: 1, max: 9 }), (length, stride) => {
        const example = { id: '', question: 'a', context: 'a '.repeat(length), answers: [] };
        const tokenizer = uncased;
        const { windows } = encodeSpans({
          examples: [example],
          tokenizer,
          sequenceLength: 13,
          documentStride: stride,
          maximumQueryLength: 1,
        });
        const seen = windows.flatMap(({ starts, hasMaximumContext }) =>
          [...starts].filter((_, i) => hasMaximumContext[i] === 1),
        );
        expect(seen.sort((a, b) => a - b)).toEqual(Array.from({ length }, (_, i) => 2 * i));
      }),
      { seed: 6 },
    );
  });

  it('refuses lengths and tokenizers that cannot work', async () => {
    const attempt = (change: object) => () =>
      encodeSpans({ examples: [], tokenizer: uncased, sequenceLength: 128, documentStride: 32, ...change });
    const code = (name: string) => expect.objectContaining({ code: name });
    expect(attempt({})).not.toThrow();
    expect(attempt({ sequenceLength: 67 })).toThrow(code('MTL_DATA_SEQUENCE_LENGTH'));
    expect(attempt({ maximumQueryLength: 0 })).toThrow(code('MTL_DATA_SEQUENCE_LENGTH'));
    expect(attempt({ documentStride: 62 })).toThrow(code('MTL_DATA_STRIDE'));
    expect(attempt({ documentStride: 61 })).not.toThrow();
    const bpe = await createTokenizer({ type: 'GPT2BPETokenizer' });
    expect(attempt({ tokenizer: bpe })).toThrow(code('MTL_DATA_TOKENIZER_OFFSETS'));
  });

  it.each([0, 1])('finds the best spans of all windows (%i)', (which) => {
    const { nBest, longest, logits, results } = fixture.best[which]!;
    const { windows } = encoded(fixture.spans[1]!);
    for (const [number, expected] of results.entries()) {
      const example = squad.examples[number]!;
      const found = bestSpans({
        example,
        logits: windows.flatMap((window, i) => (window.example === number ? { window, ...logits[i]! } : [])),
        nBest,
        maximumAnswerLength: longest,
      });
      expect(example.id).toBe(expected.id);
      expect(found.candidates.map(({ text }) => text)).toEqual(expected.candidates.map(([text]) => text));
      expect(found.noAnswerScore).toBe(expected.null);
      // The exponential functions of two libraries differ in the last digits of a float64.
      expect(found.noAnswerProbability).toBeCloseTo(expected.noAnswer, 12);
      for (const [i, { text, start, score, probability }] of found.candidates.entries()) {
        expect(example.context.startsWith(text, start)).toBe(true);
        expect(score).toBe(expected.candidates[i]![1]);
        expect(probability).toBeCloseTo(expected.candidates[i]![2], 12);
      }
    }
  });

  it('takes the answers of the training positions from the context', () => {
    const { dataset, windows } = encodeSpans({
      examples: squad.examples,
      tokenizer: uncased,
      sequenceLength: 512,
    });
    const answered = windows.filter(({ example, offset, starts, ends }, i) => {
      const { startPositions, endPositions } = dataset.sample(i);
      const { answers, context } = squad.examples[example]!;
      if (startPositions![0] === 0) return false;
      const answer = context.slice(starts[startPositions![0]! - offset], ends[endPositions![0]! - offset]);
      expect(answer).toContain(answers[0]!.text);
      return true;
    });
    expect(answered).toHaveLength(squad.examples.filter(({ answers }) => answers.length > 0).length);
  });
});

describe('TaskDataset', () => {
  const dataset = () => {
    const text = (i: number) => 'a '.repeat(i % 7);
    const examples = Array.from({ length: 50 }, (_, i) => {
      return { id: `${i}`, first: text(i), second: text(i + 1), label: i % 3, genre: undefined };
    });
    return encodeSentencePairs({ examples, tokenizer: uncased, sequenceLength: 12 });
  };

  it.each(['worker', 'main'] as const)(
    'gives the batches of each rank, resumed or not (%s)',
    async (thread) => {
      const all = dataset();
      const sampler = { kind: 'cyclic', microBatchSize: 4, seed: 3 } as const;
      const take = async (consumedSamples: number, index: number, count: number) => {
        const loader = createBatchLoader({
          dataset: all,
          sampler: { ...sampler, consumedSamples, shareOfBatch: { index, count: 2 } },
          thread,
        });
        const batches: TaskTokenBatch[] = [];
        for await (const batch of loader) if (batches.push(batch) === count) break;
        return batches;
      };
      const whole = await take(0, 1, 8);
      expect(await take(40, 1, 3)).toEqual(whole.slice(5));
      const other = await take(0, 0, 8);
      // 48 of the 50 samples are used in an epoch, and each goes to a single rank
      const seen = [...whole.slice(0, 6), ...other.slice(0, 6)].flatMap((batch) => [...batch.sampleNumbers]);
      expect(new Set(seen).size).toBe(48);
      for (const batch of whole) {
        for (const [row, sample] of batch.sampleNumbers.entries()) {
          expect(batch.labels![row]).toBe(sample % 3);
          expect(batch.lengths[row]).toBe(all.sample(sample).lengths[0]);
        }
      }
    },
  );

  it('has no sample beyond its last one', () => {
    for (const sample of [-1, 50, 0.5]) {
      expect(() => dataset().sample(sample)).toThrow(
        expect.objectContaining({ code: 'MTL_DATA_OUT_OF_RANGE' }),
      );
    }
  });
});
