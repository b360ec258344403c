import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { buildGptIndices, checkGptIndices, planGptIndices } from './gpt-indices.js';

interface Fixture {
  sizes: number[];
  first: number;
  end: number;
  numSamples: number | null;
  sequenceLength: number;
  seed: number;
  dropLast: boolean;
  numEpochs: number;
  separateFinalEpoch: boolean;
  numRows: number;
  documentIndex: string;
  sampleIndex: string;
  shuffleIndex: string;
}

const fixtures = JSON.parse(
  readFileSync(new URL('../../fixtures/gpt-indices.json', import.meta.url), 'utf8'),
) as Fixture[];

const md5 = (values: Int32Array | Uint32Array) =>
  createHash('md5')
    .update(Buffer.from(values.buffer, values.byteOffset, values.byteLength))
    .digest('hex');

function makeOptions(fixture: Fixture) {
  return {
    sizes: Int32Array.from(fixture.sizes),
    documents: { first: fixture.first, end: fixture.end },
    numSamples: fixture.numSamples ?? undefined,
    sequenceLength: fixture.sequenceLength,
    seed: fixture.seed,
    dropLast: fixture.dropLast,
  };
}

describe('buildGptIndices', () => {
  it('has fixtures of every kind', () => {
    expect(fixtures.length).toBeGreaterThan(40);
    expect(fixtures.filter((f) => f.separateFinalEpoch).length).toBeGreaterThan(5);
    expect(fixtures.filter((f) => f.numEpochs > 1 && !f.separateFinalEpoch).length).toBeGreaterThan(5);
    expect(fixtures.filter((f) => !f.dropLast).length).toBeGreaterThan(5);
    expect(fixtures.filter((f) => f.numSamples === null).length).toBeGreaterThan(5);
  });

  it.each(fixtures.map((fixture, i) => [i, fixture] as const))(
    'is bit for bit Megatron (case %i)',
    (_, fixture) => {
      const indices = buildGptIndices(makeOptions(fixture));
      expect(indices.plan.numEpochs).toBe(fixture.numEpochs);
      expect(indices.plan.separateFinalEpoch).toBe(fixture.separateFinalEpoch);
      expect(indices.shuffleIndex.length).toBe(fixture.numRows);
      expect(md5(indices.documentIndex)).toBe(fixture.documentIndex);
      expect(md5(indices.sampleIndex)).toBe(fixture.sampleIndex);
      expect(md5(indices.shuffleIndex)).toBe(fixture.shuffleIndex);
    },
  );

  it.each([
    [undefined, [0, 1, 2, 3], [0, 0, 0, 4, 2, 0, 2, 4, 3, 1], [1, 2, 3, 0]],
    [
      10,
      [2, 1, 2, 0, 0, 1, 3, 3, 0, 2, 1, 3],
      [0, 0, 0, 4, 1, 1, 2, 2, 2, 6, 3, 3, 4, 2, 5, 1, 6, 2, 7, 2, 8, 2, 9, 1, 9, 5, 10, 2, 11, 3],
      [7, 3, 5, 1, 4, 8, 0, 2, 6, 13, 10, 12, 9, 11],
    ],
  ])('gives the worked example for %s samples', (numSamples, documentIndex, sampleIndex, shuffleIndex) => {
    const indices = buildGptIndices({
      sizes: Int32Array.of(5, 3, 7, 4),
      documents: { first: 0, end: 4 },
      numSamples,
      sequenceLength: 4,
      seed: 1234,
    });
    expect([...indices.documentIndex]).toEqual(documentIndex);
    expect([...indices.sampleIndex]).toEqual(sampleIndex);
    expect([...indices.shuffleIndex]).toEqual(shuffleIndex);
  });

  it('shuffles the last epoch apart when less than 80 % of it is used', () => {
    const plan = (numSamples: number) =>
      planGptIndices({
        sizes: Int32Array.of(401),
        documents: { first: 0, end: 1 },
        numSamples,
        sequenceLength: 4,
        seed: 1,
      });
    expect(plan(179)).toMatchObject({
      numEpochs: 2,
      separateFinalEpoch: true,
      numSamplesBeforeFinalEpoch: 100,
    });
    expect(plan(180)).toMatchObject({ numEpochs: 2, separateFinalEpoch: false });
  });

  it('counts partial samples in float32, as Megatron does', () => {
    const plan = planGptIndices({
      sizes: Int32Array.of(33_554_435),
      documents: { first: 0, end: 1 },
      sequenceLength: 16,
      seed: 1,
      dropLast: false,
    });
    expect(plan.numSamples).toBe(2_097_152);
  });

  it('covers every token of every epoch once, whatever the sizes', () => {
    const sizes = fc.array(fc.integer({ min: 0, max: 40 }), { minLength: 1, maxLength: 30 });
    const wanted = fc.option(fc.integer({ min: 1, max: 200 }), { nil: undefined });
    fc.assert(
      fc.property(
        sizes,
        wanted,
        fc.integer({ min: 1, max: 12 }),
        fc.nat(),
        (lengths, numSamples, sequenceLength, seed) => {
          const total = lengths.reduce((sum, length) => sum + length, 0);
          fc.pre(total > sequenceLength);
          const options = {
            sizes: Int32Array.from(lengths),
            documents: { first: 0, end: lengths.length },
            numSamples,
            sequenceLength,
            seed,
          };
          const indices = buildGptIndices(options);
          expect(checkGptIndices({ ...options, ...indices })).toBeUndefined();
          expect(indices.plan.numSamples).toBeGreaterThanOrEqual(numSamples ?? 1);
          // one epoch fewer would not provide enough samples
          if (numSamples !== undefined && indices.plan.numEpochs > 1) {
            expect((indices.plan.numEpochs - 1) * total).toBeLessThan(numSamples * sequenceLength + 1);
          }
          // Megatron's assertion about the last epoch always holds.
          const before = Math.floor(((indices.plan.numEpochs - 1) * total - 1) / sequenceLength);
          const last = (numSamples ?? 1) - before;
          if (indices.plan.numEpochs > 1) {
            expect(last).toBeGreaterThanOrEqual(0);
            expect(last).toBeLessThanOrEqual(Math.floor((total - 1) / sequenceLength) + 1);
          }
        },
      ),
    );
  });

  it('refuses parts that cannot give a sample', () => {
    const base = { sizes: Int32Array.of(4, 0), sequenceLength: 4, seed: 1 };
    expect(() => buildGptIndices({ ...base, documents: { first: 0, end: 2 } })).toThrow(
      expect.objectContaining({ code: 'MTL_DATA_TOO_FEW_TOKENS' }),
    );
    expect(() => buildGptIndices({ ...base, documents: { first: 1, end: 2 }, numSamples: 3 })).toThrow(
      expect.objectContaining({ code: 'MTL_DATA_NO_TOKENS' }),
    );
    expect(() => buildGptIndices({ ...base, documents: { first: 0, end: 1 }, numSamples: 2 ** 31 })).toThrow(
      expect.objectContaining({ code: 'MTL_DATA_INDEX_TOO_LARGE' }),
    );
  });
});
