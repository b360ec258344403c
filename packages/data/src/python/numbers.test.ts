import { readFileSync } from 'node:fs';
import { PythonFloat } from '@mtl/chat-templates';
import { describe, expect, it } from 'vitest';
import { RandomState } from '../random/random-state.js';
import { parseSplit, splitSequences } from '../samples/dataset-part.js';
import { pythonJson } from './json.js';
import { pairwiseSum, roundHalfToEven } from './numbers.js';

const fixture = JSON.parse(
  readFileSync(new URL('../../fixtures/python-json.json', import.meta.url), 'utf8'),
) as {
  floats: number[];
  text: string;
  dumped: string;
  sums: { seed: number; count: number; sum: number }[];
};

describe('pythonJson', () => {
  it('prints what json.dumps(indent=4) prints', () => {
    const floats = fixture.floats.map((value) => new PythonFloat(value));
    const nested = { a: [1, [2]], b: {} };
    expect(pythonJson({ floats, text: fixture.text, empty: [], none: null, nested, yes: true })).toBe(
      fixture.dumped,
    );
  });
});

describe('pairwiseSum', () => {
  it.each(fixture.sums)('adds $count numbers as NumPy does', ({ seed, count, sum }) => {
    const random = new RandomState(seed);
    expect(pairwiseSum(Array.from({ length: count }, () => random.double()))).toBe(sum);
  });
});

describe('roundHalfToEven', () => {
  it('rounds as Python does', () => {
    expect([0.5, 1.5, 2.5, 2.4999, 2.51, 7, 0].map(roundHalfToEven)).toEqual([0, 2, 2, 2, 3, 7, 0]);
  });
});

describe('parseSplit', () => {
  it('lays the weights end to end', () => {
    expect(parseSplit('969,30,1')).toEqual([
      [0, 0.969],
      [0.969, 0.999],
      [0.999, 1],
    ]);
    expect(parseSplit('1')).toEqual([[0, 1], undefined, undefined]);
    expect(parseSplit('0, .5 , .5')).toEqual([undefined, [0, 0.5], [0.5, 1]]);
  });

  it('selects sequences with halves rounded to even', () => {
    const second = { split: 'valid', splitWeights: '1,1' } as const;
    expect(splitSequences({ ...second, count: 5 })).toEqual({ first: 2, end: 5 });
    expect(splitSequences({ ...second, count: 7 })).toEqual({ first: 4, end: 7 });
    expect(splitSequences({ split: 'test', splitWeights: '1,1', count: 7 })).toEqual({ first: 0, end: 0 });
    expect(splitSequences({ split: 'train', count: 7 })).toEqual({ first: 0, end: 7 });
  });

  it.each(['', '0,0', '1,2,3,4', '-1,2', 'a', '1.2.3'])('refuses "%s"', (split) => {
    expect(() => parseSplit(split)).toThrow(expect.objectContaining({ code: 'MTL_DATA_SPLIT' }));
  });
});
