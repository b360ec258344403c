import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type LogitRowsOptions, logitRowsAtATime } from './linear-cross-entropy.js';

const rowsAtATime = (options: Omit<LogitRowsOptions, 'inputBytesPerRow'>): number =>
  logitRowsAtATime({ inputBytesPerRow: 2 * 768, ...options });

describe('the rows of logits at a time', () => {
  it('are all where they fit', () => {
    expect(rowsAtATime({ numRows: 1000, bytesPerRow: 4 * 256 })).toBe(1000);
    expect(rowsAtATime({ numRows: 3, bytesPerRow: 10, chunkBytes: 30 })).toBe(3);
  });

  it('are whole tiles of about one size where they do not', () => {
    // GPT-2 in bfloat16: 667 rows fit into 64 MiB, so a chunk has 5 complete tiles of 128 rows
    expect(rowsAtATime({ numRows: 8 * 1024, bytesPerRow: 2 * 50304 })).toBe(640);
    expect(rowsAtATime({ numRows: 8 * 1024, bytesPerRow: 2 * 50304, device: 'cuda' })).toBe(2048);
    expect(rowsAtATime({ numRows: 2 * 1024, bytesPerRow: 4 * 50304 })).toBe(256);
    expect(rowsAtATime({ numRows: 1400, bytesPerRow: 2 * 50304 })).toBe(512);
  });

  it('take the memory that a layer keeps on a GPU, from 256 MiB to 1 GiB', () => {
    const numChunks = (
      numRows: number,
      hiddenSize: number,
      device: 'cuda' | 'meta-cuda' | 'cpu' = 'cuda',
    ) => {
      const sizes = { numRows, bytesPerRow: 2 * 50304, inputBytesPerRow: 2 * hiddenSize, device };
      const rows = logitRowsAtATime(sizes);
      return [Math.ceil(numRows / rows), Math.round((rows * sizes.bytesPerRow) / 1024 ** 2)];
    };
    expect(numChunks(1024 * 32, 768)).toEqual([5, 639]);
    expect(numChunks(1024 * 32, 768, 'meta-cuda')).toEqual([5, 639]);
    expect(numChunks(1024 * 32, 768, 'cpu')).toEqual([52, 61]);
    expect(numChunks(1024 * 8, 768)).toEqual([4, 197]);
    expect(numChunks(2048 * 8, 2048)).toEqual([2, 786]);
    expect(numChunks(2048 * 64, 4096)).toEqual([13, 970]);
  });

  it('are the rows that fit if a tile does not, and at least one', () => {
    expect(rowsAtATime({ numRows: 9, bytesPerRow: 10, chunkBytes: 45 })).toBe(3);
    expect(rowsAtATime({ numRows: 9, bytesPerRow: 10, chunkBytes: 1 })).toBe(1);
  });

  it('never exceeds the limit, nor makes more chunks than whole tiles allow', () => {
    const sizes = fc.record({
      numRows: fc.integer({ min: 1, max: 100_000 }),
      bytesPerRow: fc.integer({ min: 1, max: 1_000_000 }),
      chunkBytes: fc.integer({ min: 1, max: 1e9 }),
    });
    fc.assert(
      fc.property(sizes, ({ numRows, bytesPerRow, chunkBytes }) => {
        const rows = rowsAtATime({ numRows, bytesPerRow, chunkBytes });
        const fits = Math.max(1, Math.floor(chunkBytes / bytesPerRow));
        expect(rows).toBeLessThanOrEqual(fits);
        const mostOfTiles = fits < 128 ? fits : fits - (fits % 128);
        expect(Math.ceil(numRows / rows)).toBeLessThanOrEqual(Math.ceil(numRows / mostOfTiles));
      }),
    );
  });
});
