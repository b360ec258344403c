import { Parameter } from '@mtl/autograd';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { flatLayout, sliceOf } from './flat-layout.js';

const parametersOf = (sizes: readonly number[]): Parameter[] =>
  sizes.map(
    (size, index) =>
      new Parameter({ name: `p${index}`, globalShape: [size], initialization: { kind: 'zeros' } }),
  );

describe('flatLayout', () => {
  it('covers the buffers with buckets from the last parameter on, cut into equal aligned slices', () => {
    const options = fc.record({
      sizes: fc.array(fc.integer({ min: 1, max: 500 }), { minLength: 1, maxLength: 20 }),
      bucketSize: fc.integer({ min: 1, max: 2000 }),
      numSlices: fc.integer({ min: 1, max: 8 }),
    });
    fc.assert(
      fc.property(options, ({ sizes, ...layoutOptions }) => {
        const parameters = parametersOf(sizes);
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
            sliceOf(bucket, index, layoutOptions.numSlices),
          );
          for (const slice of slices) expect(slice.start % 64).toBe(0);
          expect(slices.at(-1)!.end).toBe(bucket.end);
          // full, but not fuller than its first parameter makes it
          const [, ...rest] = bucket.ranges.map((range) => range.end - range.start);
          expect(rest.reduce((sum, each) => sum + each, 0)).toBeLessThan(layoutOptions.bucketSize);
        }
        expect(end).toBe(0);
        expect(buckets.toReversed().flatMap((bucket) => bucket.ranges)).toEqual(ranges);
      }),
    );
  });
});
