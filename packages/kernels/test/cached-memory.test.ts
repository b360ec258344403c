import { afterAll, beforeEach, expect, it } from 'vitest';
import { memoryStatistics, resetPeakMemory, Tensor, trimMemory } from '../src/index.js';

const mebibyte = 2 ** 20;
const bytes = (mebibytes: number): Tensor =>
  Tensor.empty({ shape: [mebibytes * mebibyte], dtype: 'uint8', device: 'cpu' });

beforeEach(() => {
  trimMemory('cpu');
  resetPeakMemory('cpu');
});
afterAll(() => trimMemory('cpu'));

it('returns cached blocks before memory exceeds the peak of what was in use', () => {
  const { bytesInUse } = memoryStatistics('cpu');
  const held = (): number => (memoryStatistics('cpu').bytesReserved - bytesInUse) / mebibyte;
  bytes(96).dispose();
  expect(held()).toBe(96);
  // blocks of other sizes do not fit; with both the peak would be 160
  using large = bytes(64);
  expect(large.bytes).toBe(64 * mebibyte);
  expect(held()).toBe(64);
  // the peak has room for both
  bytes(32).dispose();
  expect(held()).toBe(96);
  using medium = bytes(24);
  expect(medium.bytes).toBe(24 * mebibyte);
  expect(held()).toBeLessThanOrEqual(96);
});

it('keeps cached blocks that are taken again', () => {
  const { bytesInUse } = memoryStatistics('cpu');
  const step = (): void => {
    using first = bytes(64);
    using second = bytes(32);
    expect(first.size).toBeGreaterThan(second.size);
  };
  step();
  const { bytesReserved } = memoryStatistics('cpu');
  expect((bytesReserved - bytesInUse) / mebibyte).toBe(96);
  step();
  expect(memoryStatistics('cpu').bytesReserved).toBe(bytesReserved);
});
