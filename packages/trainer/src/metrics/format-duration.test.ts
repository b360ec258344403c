import { describe, expect, it } from 'vitest';
import { formatDuration } from './format-duration.js';

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
