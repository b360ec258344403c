import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, describe, expect, it } from 'vitest';
import { accuracy, binaryF1, readSquadFile, squadMetrics } from '../index.js';
import { answerF1, exactMatch, normalizeAnswer, type SquadMetrics } from './task-metrics.js';

// Fixtures: tooling/fixtures/make-task-fixtures.py.
const fixture = JSON.parse(
  gunzipSync(readFileSync(new URL('../../fixtures/task-metrics.json.gz', import.meta.url))).toString(),
) as {
  normalized: { text: string; normalized: string }[];
  scores: { prediction: string; truth: string; exact: number; f1: number; f1Version1: number }[];
  squad: {
    file: { version: string };
    predictions: Record<string, string>;
    probabilities: Record<string, number> | null;
    threshold: number;
    metrics: Omit<SquadMetrics, 'missing'>;
  }[];
  classification: { labels: number[]; predictions: number[]; accuracy: number; f1: number }[];
};
const directory = mkdtempSync(join(tmpdir(), 'mtl-data-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

// Sums of the same values in a different order differ in the last digits of a float64.
const digits = 10;

describe('answers', () => {
  it('are normalised as in Python', () => {
    for (const { text, normalized } of fixture.normalized) {
      expect({ text, normalized: normalizeAnswer(text) }).toEqual({ text, normalized });
    }
  });

  it('score exactly and by words, empty ones by version', () => {
    for (const { prediction, truth, exact, f1, f1Version1 } of fixture.scores) {
      expect(exactMatch(prediction, truth)).toBe(exact);
      expect(answerF1(prediction, truth)).toBeCloseTo(f1, digits);
      expect(answerF1(prediction, truth, { emptyMatchesEmpty: false })).toBeCloseTo(f1Version1, digits);
    }
  });
});

describe('squadMetrics', () => {
  it.each(fixture.squad.map((_, i) => i))('has the numbers of the official rules (case %i)', (i) => {
    const { file, predictions, probabilities, threshold, metrics } = fixture.squad[i]!;
    const path = join(directory, `${i}.json`);
    writeFileSync(path, JSON.stringify(file));
    const examples = readSquadFile(path);
    expect(examples.hasUnanswerable).toBe(file.version === '2.0');
    const found = squadMetrics({
      examples,
      predictions: new Map(Object.entries(predictions)),
      noAnswerProbabilities: probabilities === null ? undefined : new Map(Object.entries(probabilities)),
      noAnswerThreshold: threshold,
    });
    const { missing, ...rest } = found;
    expect(missing).toBe(examples.examples.length - Object.keys(predictions).length);
    expect(flat(rest).map(([key]) => key)).toEqual(flat(metrics).map(([key]) => key));
    for (const [j, [key, value]] of flat(rest).entries()) {
      expect({ key, value: value.toFixed(digits) }).toEqual({
        key,
        value: flat(metrics)[j]![1].toFixed(digits),
      });
    }
  });

  it('refuses predictions without their probabilities', () => {
    const { file, predictions } = fixture.squad.at(-1)!;
    const path = join(directory, 'last.json');
    writeFileSync(path, JSON.stringify(file));
    const examples = readSquadFile(path);
    const all = { examples, predictions: new Map(Object.entries(predictions)) };
    const code = expect.objectContaining({ code: 'MTL_DATA_PREDICTIONS' });
    expect(() => squadMetrics({ ...all, noAnswerProbabilities: new Map() })).toThrow(code);
    expect(() => squadMetrics({ examples, predictions: new Map() })).toThrow(code);
  });
});

/** Returns the values of nested metrics together with their paths, sorted by path. */
function flat(metrics: object, prefix = ''): [string, number][] {
  return Object.entries(metrics)
    .flatMap(([key, value]): [string, number][] =>
      typeof value === 'object'
        ? flat(value as object, `${prefix}${key}.`)
        : [[prefix + key, value as number]],
    )
    .sort(([a], [b]) => (a < b ? -1 : 1));
}

describe('classification', () => {
  it('counts right predictions and the F1 of class 1', () => {
    for (const { labels, predictions, ...expected } of fixture.classification) {
      expect(accuracy({ predictions, labels })).toBeCloseTo(expected.accuracy, digits);
      expect(binaryF1({ predictions, labels })).toBeCloseTo(expected.f1, digits);
    }
    expect(binaryF1({ predictions: [0, 0], labels: [1, 0] })).toBe(0);
  });

  it('refuses predictions that do not fit', () => {
    for (const metric of [accuracy, binaryF1]) {
      expect(() => metric({ predictions: [1], labels: [1, 0] })).toThrow(
        expect.objectContaining({ code: 'MTL_DATA_PREDICTIONS' }),
      );
    }
  });
});
