import { SingleProcessGroup } from '@mtl/comm';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { sliceOfRank, type TensorParallel } from './index.js';

/** Returns the settings of the given rank, whose group must not communicate. */
function placed(rank: number, size: number): TensorParallel {
  return {
    group: Object.assign(new SingleProcessGroup('placed'), { rank, size }),
    sequenceParallel: false,
  };
}

describe('sliceOfRank', () => {
  it('is everything without tensor parallelism, and in a group of one', () => {
    const options = { size: 7, what: 'heads' };
    expect(sliceOfRank(undefined, options)).toEqual({ start: 0, end: 7 });
    expect(sliceOfRank(placed(0, 1), options)).toEqual({ start: 0, end: 7 });
  });

  it('gives every rank as much, side by side, and nothing twice', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 16 }), fc.integer({ min: 1, max: 50 }), (numRanks, each) => {
        const size = numRanks * each;
        const slices = Array.from({ length: numRanks }, (_, rank) =>
          sliceOfRank(placed(rank, numRanks), { size, what: 'features' }),
        );
        expect(slices.map(({ start, end }) => end - start)).toEqual(slices.map(() => each));
        expect(slices.map(({ start }) => start)).toEqual(slices.map((_, rank) => rank * each));
      }),
    );
  });

  it('rejects a size that cannot be divided evenly and names the nearest that can', () => {
    expect(() => sliceOfRank(placed(1, 4), { size: 6, what: 'attention heads' })).toThrow(
      expect.objectContaining({
        code: 'MTL_TENSOR_PARALLEL_SIZE',
        message: '6 attention heads cannot be divided evenly over 4 tensor-parallel processes',
        expected: '3 or 6 processes, or 4 or 8 attention heads',
      }),
    );
    expect(() => sliceOfRank(placed(1, 4), { size: 3, what: 'positions' })).toThrow(
      expect.objectContaining({ expected: '3 processes, or 4 positions' }),
    );
  });
});
