import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { logitRowsAtATime } from './logit-rows-at-a-time.js';

describe('the rows of logits at a time', () => {
  it('are all where they fit', () => {
    expect(logitRowsAtATime({ numRows: 1000, bytesPerRow: 4 * 256 })).toBe(1000);
    expect(logitRowsAtATime({ numRows: 3, bytesPerRow: 10, chunkBytes: 30 })).toBe(3);
  });

  it('are whole tiles of about one size where they do not', () => {
    // GPT-2 in bfloat16: 1,334 rows fit, which are 10 tiles
    expect(logitRowsAtATime({ numRows: 8 * 1024, bytesPerRow: 2 * 50304 })).toBe(1280);
    expect(logitRowsAtATime({ numRows: 8 * 1024, bytesPerRow: 2 * 50304, device: 'cuda' })).toBe(2048);
    expect(logitRowsAtATime({ numRows: 2 * 1024, bytesPerRow: 4 * 50304 })).toBe(512);
    expect(logitRowsAtATime({ numRows: 1400, bytesPerRow: 2 * 50304 })).toBe(768);
  });

  it('are as many as fit where that is less than a tile, and one at least', () => {
    expect(logitRowsAtATime({ numRows: 9, bytesPerRow: 10, chunkBytes: 45 })).toBe(3);
    expect(logitRowsAtATime({ numRows: 9, bytesPerRow: 10, chunkBytes: 1 })).toBe(1);
  });

  it('never exceeds the limit, nor makes more chunks than whole tiles allow', () => {
    const sizes = fc.record({
      numRows: fc.integer({ min: 1, max: 100_000 }),
      bytesPerRow: fc.integer({ min: 1, max: 1_000_000 }),
      chunkBytes: fc.integer({ min: 1, max: 1e9 }),
    });
    fc.assert(
      fc.property(sizes, ({ numRows, bytesPerRow, chunkBytes }) => {
        const rows = logitRowsAtATime({ numRows, bytesPerRow, chunkBytes });
        const fits = Math.max(1, Math.floor(chunkBytes / bytesPerRow));
        expect(rows).toBeLessThanOrEqual(fits);
        const mostOfTiles = fits < 128 ? fits : fits - (fits % 128);
        expect(Math.ceil(numRows / rows)).toBeLessThanOrEqual(Math.ceil(numRows / mostOfTiles));
      }),
    );
  });
});
