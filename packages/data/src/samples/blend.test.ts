import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { float64ToInt64Bits } from '../files/typed-arrays.js';
import { buildGptDatasets, parseDataPath } from '../index.js';
import { checkNoWeightAmongPrefixes } from '../internal/index.js';
import { normalizeWeights } from '../python/numbers.js';
import { buildBlendIndices, buildExhaustiveBlendIndices } from './blended-dataset.js';

interface Fixture {
  raw: number[];
  normalized: number[];
  size: number;
  datasetIndex: string;
  datasetSampleIndex: string;
}
const fixtures = JSON.parse(
  readFileSync(new URL('../../fixtures/blend-indices.json', import.meta.url), 'utf8'),
) as Fixture[];
const md5 = (values: Int16Array | Uint32Array) =>
  createHash('md5')
    .update(Buffer.from(values.buffer, values.byteOffset, values.byteLength))
    .digest('hex');

describe('buildBlendIndices', () => {
  it.each(fixtures.map((fixture) => [fixture.raw.length, fixture] as const))(
    'blends %i datasets as Megatron',
    (_, fixture) => {
      const weights = normalizeWeights(fixture.raw);
      expect(weights).toEqual(fixture.normalized);
      const indices = buildBlendIndices({ weights, size: fixture.size });
      expect(md5(indices.datasetIndex)).toBe(fixture.datasetIndex);
      expect(md5(float64ToInt64Bits(indices.datasetSampleIndex))).toBe(fixture.datasetSampleIndex);
    },
  );

  it('gives the worked example', () => {
    const indices = buildBlendIndices({ weights: [0.7, 0.2, 0.1], size: 12 });
    expect([...indices.datasetIndex]).toEqual([0, 1, 0, 2, 0, 0, 1, 0, 0, 0, 0, 1]);
    expect([...indices.datasetSampleIndex]).toEqual([0, 0, 1, 0, 2, 3, 1, 4, 5, 6, 7, 2]);
  });

  it('never strays more than one sample per dataset from the weights', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 100 }), { minLength: 1, maxLength: 6 }), (raw) => {
        const weights = normalizeWeights(raw);
        const { datasetIndex } = buildBlendIndices({ weights, size: 400 });
        for (const [i, weight] of weights.entries()) {
          const taken = datasetIndex.filter((dataset) => dataset === i).length;
          // With the greedy rule, a dataset's sample count differs from its weighted share by at most the
          // number of datasets.
          expect(Math.abs(taken - 400 * weight)).toBeLessThanOrEqual(weights.length);
        }
      }),
    );
  });
});

describe('buildExhaustiveBlendIndices', () => {
  it('takes every sample of every dataset once', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 50 }), { minLength: 1, maxLength: 6 }), (sizes) => {
        fc.pre(sizes.some((size) => size > 0));
        const { datasetIndex, datasetSampleIndex } = buildExhaustiveBlendIndices({ sizes });
        const drawn = sizes.map((): number[] => []);
        datasetIndex.forEach((dataset, k) => {
          drawn[dataset]!.push(datasetSampleIndex[k]!);
        });
        expect(drawn).toEqual(sizes.map((size) => Array.from({ length: size }, (_, i) => i)));
      }),
    );
  });
});

describe('parseDataPath', () => {
  it.each([
    [['a'], { prefixes: ['a'], weights: undefined }],
    [['0.3', 'a', ' 7e-1', ' b '], { prefixes: ['a', 'b'], weights: [0.3, 0.7] }],
    [['a', 'b'], { prefixes: ['a', 'b'], weights: undefined }],
    [['1', 'a', '2'], { prefixes: ['1', 'a', '2'], weights: undefined }],
  ])('reads %j', (values, expected) => {
    expect(parseDataPath(values)).toEqual(expected);
  });

  it.each([[['0', 'a', '0', 'b']], [['0.0', 'a']]])('refuses weights that are all 0: %j', (values) => {
    expect(() => parseDataPath(values)).toThrow(
      expect.objectContaining({
        code: 'MTL_DATA_BLEND_WEIGHTS',
        message: expect.stringContaining('all weights are 0'),
      }),
    );
    expect(parseDataPath(['0', 'a', '1', 'b']).weights).toEqual([0, 1]);
  });

  it('leaves a number in a list of prefixes to those who open it, where it is a weight that was meant', () => {
    const open =
      (...values: string[]) =>
      () =>
        checkNoWeightAmongPrefixes(parseDataPath(values));
    const refused = (remedy: string) =>
      expect.objectContaining({ code: 'MTL_DATA_PATH', remedy: expect.stringContaining(remedy) });
    expect(open('1', 'a', 'b')).toThrow(refused('write WEIGHT a WEIGHT b, or a b without weights'));
    expect(open('a', '0.5', 'b')).toThrow(refused('WEIGHT a WEIGHT b'));
    const build = () =>
      buildGptDatasets({
        blend: parseDataPath(['1', 'a', 'b']),
        sequenceLength: 8,
        seed: 1,
        numSamples: { train: 1, valid: 0, test: 0 },
        endOfDocument: 0,
      });
    expect(build).toThrow(refused('WEIGHT a WEIGHT b'));
    expect(open('1')).not.toThrow();
  });

  it.each([[[]], [['1', 'a', 'b', 'c']], [['-1', 'a', '2', 'b']], ['a'], [[0.3, 'a', 0.7, 'b']]])(
    'refuses %j',
    (values) => {
      // inputs that JavaScript would coerce silently
      const given = values as readonly string[];
      expect(() => parseDataPath(given)).toThrow(expect.objectContaining({ code: 'MTL_DATA_PATH' }));
    },
  );
});
