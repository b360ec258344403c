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

it('returns cached blocks to the system, which have mappings of their own from 8 MiB on', () => {
  const resident = (): number => process.memoryUsage.rss() / mebibyte;
  const blocks = Array.from({ length: 32 }, () => bytes(8));
  const before = resident();
  for (const block of blocks) block.zero();
  expect(resident() - before).toBeGreaterThan(200);
  for (const block of blocks) block.dispose();
  expect(resident() - before).toBeGreaterThan(200);
  trimMemory('cpu');
  expect(resident() - before).toBeLessThan(56);
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
