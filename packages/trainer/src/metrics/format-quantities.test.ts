import { describe, expect, it } from 'vitest';
import { formatBytes, formatDuration } from './format-quantities.js';

describe('formatBytes', () => {
  it.each([
    [0, '0 B'],
    [1023, '1023 B'],
    [0.4, '0 B'],
    [1024, '1.0 KiB'],
    [1.25 * 2 ** 20, '1.3 MiB'],
    [80 * 2 ** 30, '80.0 GiB'],
    [3000 * 2 ** 40, '3000.0 TiB'],
  ])('%d bytes are %s', (bytes, text) => {
    expect(formatBytes(bytes)).toBe(text);
  });
});

describe('formatDuration', () => {
  it.each([
    [0, '0s'],
    [-5, '0s'],
    [59_400, '59s'],
    [60_000, '1m 00s'],
    [3_599_000, '59m 59s'],
    [7_620_000, '2h 07m'],
    [273_600_000, '3d 04h'],
  ])('%d ms is %s', (milliseconds, text) => {
    expect(formatDuration(milliseconds)).toBe(text);
  });
});
