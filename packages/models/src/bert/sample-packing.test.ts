import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { numPackedRows, type PaddedSize, SamplePacking } from './sample-packing.js';

const sizes: fc.Arbitrary<PaddedSize> = fc
  .record({ batchSize: fc.integer({ min: 1, max: 9 }), sequenceLength: fc.integer({ min: 1, max: 200 }) })
  .chain((size) =>
    fc
      .array(fc.integer({ min: 1, max: size.sequenceLength }), {
        minLength: size.batchSize,
        maxLength: size.batchSize,
      })
      .map((lengths) => ({ ...size, lengths: Int32Array.from(lengths) })),
  );

const sumLengths = (lengths: Int32Array): number => lengths.reduce((sum, length) => sum + length, 0);

describe('numPackedRows', () => {
  it('has room for all tokens, little more, and is a multiple of the divisor', () => {
    fc.assert(
      fc.property(sizes, fc.integer({ min: 1, max: 4 }), (size, divisor) => {
        const rows = numPackedRows(size, divisor);
        const padded = size.batchSize * size.sequenceLength;
        const unused = rows - sumLengths(size.lengths);
        expect(unused).toBeGreaterThanOrEqual(0);
        // the number of rows is rounded up to a multiple of the divisor and of a step, which is a 32nd of the
        // padded size, rounded up to a multiple of 8 rows
        expect(unused).toBeLessThan(padded / 32 + 8 + divisor);
        expect(rows % divisor).toBe(0);
      }),
    );
  });

  it.each([
    [8, 128, 32],
    [16, 128, 32],
    [4, 512, 32],
    // 380 rows in steps of 16
    [4, 95, 24],
  ])('gives micro-batches of %i x %i few shapes', (batchSize, sequenceLength, numShapes) => {
    const padded = batchSize * sequenceLength;
    const rows = new Set<number>();
    for (let tokens = batchSize; tokens <= padded; tokens++) {
      // all samples have the same length, but the first sample also gets the remaining tokens
      const lengths = new Int32Array(batchSize).fill(Math.floor(tokens / batchSize));
      lengths[0]! += tokens % batchSize;
      rows.add(numPackedRows({ batchSize, sequenceLength, lengths }, 1));
    }
    expect(rows.size).toBe(numShapes);
    expect(Math.max(...rows)).toBe(padded);
  });
});

describe('SamplePacking', () => {
  it('puts every token where its coordinates say, and nothing where there is none', () => {
    fc.assert(
      fc.property(sizes, (size) => {
        const { batchSize, sequenceLength, lengths } = size;
        const packing = new SamplePacking(size);
        // a token's value is its index plus 1, which identifies the token after packing
        const tokens = Int32Array.from({ length: batchSize * sequenceLength }, (_, index) => index + 1);
        const packed = packing.packed(tokens);
        expect(packed.length).toBe(packing.numRows);
        const expected = [...lengths].flatMap((length, sample) =>
          Array.from({ length }, (_, position) => ({ sample, position })),
        );
        const rest = new Array<number>(packed.length - expected.length).fill(0);
        expect([...packing.positions]).toEqual([...expected.map(({ position }) => position), ...rest]);
        expect([...packing.rowSamples]).toEqual([...expected.map(({ sample }) => sample), ...rest]);
        const token = expected.map(({ sample, position }) => position * batchSize + sample + 1);
        expect([...packed]).toEqual([...token, ...rest]);
        const ends = [...lengths].map((_, sample) => sumLengths(lengths.subarray(0, sample + 1)));
        expect([...packing.starts]).toEqual([0, ...ends]);
        expect(packing.longest).toBe(Math.max(...lengths));
        expect(packing.numScores).toBe([...lengths].reduce((sum, length) => sum + length ** 2, 0));
      }),
    );
  });
});
