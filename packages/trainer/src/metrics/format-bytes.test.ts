import { describe, expect, it } from 'vitest';
import { formatBytes } from './format-bytes.js';

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
