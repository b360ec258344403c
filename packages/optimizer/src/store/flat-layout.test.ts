import { Parameter } from '@mtl/autograd';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { flatLayout, takeSlice } from './flat-layout.js';

const makeParameters = (sizes: readonly number[]): Parameter[] =>
  sizes.map(
    (size, index) =>
      new Parameter({ name: `p${index}`, globalShape: [size], initialization: { kind: 'zeros' } }),
  );

describe('flatLayout', () => {
  it('covers the buffers with buckets from the last parameter on, divided into equal aligned slices', () => {
    const options = fc.record({
      sizes: fc.array(fc.integer({ min: 1, max: 500 }), { minLength: 1, maxLength: 20 }),
      bucketSize: fc.integer({ min: 1, max: 2000 }),
      numSlices: fc.integer({ min: 1, max: 8 }),
    });
    fc.assert(
      fc.property(options, ({ sizes, ...layoutOptions }) => {
        const parameters = makeParameters(sizes);
        const { ranges, buckets, size } = flatLayout(parameters, layoutOptions);
        expect(ranges.map(({ parameter }) => parameter)).toEqual(parameters);
        ranges.forEach(({ start, end }, index) => {
          expect(start % 64).toBe(0);
          expect(end - start).toBe(sizes[index]);
          expect(start).toBeGreaterThanOrEqual(ranges[index - 1]?.end ?? 0);
        });
        let end = size;
        for (const bucket of buckets) {
          expect(bucket.end).toBe(end);
          end = bucket.start;
          const slices = Array.from({ length: layoutOptions.numSlices }, (_, index) =>
            takeSlice(bucket, index, layoutOptions.numSlices),
          );
          for (const slice of slices) expect(slice.start % 64).toBe(0);
          expect(slices.at(-1)!.end).toBe(bucket.end);
          // the bucket is full, but would not be without its first parameter
          const [, ...rest] = bucket.ranges.map((range) => range.end - range.start);
          expect(rest.reduce((sum, each) => sum + each, 0)).toBeLessThan(layoutOptions.bucketSize);
        }
        expect(end).toBe(0);
        expect(buckets.toReversed().flatMap((bucket) => bucket.ranges)).toEqual(ranges);
      }),
    );
  });

  it('splits a parameter with a copy on another stage alike on both, whatever its neighbors are', () => {
    const placeShared = (before: readonly number[], after: readonly number[]) => {
      const shared = new Parameter({
        name: 'shared',
        globalShape: [1000],
        initialization: { kind: 'zeros' },
        placement: { stages: 'ends' },
      });
      const parameters = [...makeParameters(before), shared, ...makeParameters(after)];
      const { buckets } = flatLayout(parameters, { bucketSize: 5000, numSlices: 4 });
      const bucket = buckets.find(({ ranges }) => ranges.some(({ parameter }) => parameter === shared))!;
      expect(bucket.ranges.length).toBe(1);
      const { start } = bucket.ranges[0]!;
      return [0, 1, 2, 3].map((index) => takeSlice(bucket, index, 4).start - start);
    };
    expect(placeShared([], [300, 20, 700])).toEqual(placeShared([70, 4000], []));
    expect(placeShared([5], [5])).toEqual(placeShared([], []));
  });
});
