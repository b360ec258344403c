import { describe, expect, it } from 'vitest';
import { philox } from './random.js';

const hex = (words: readonly number[]): string =>
  words.map((word) => word.toString(16).padStart(8, '0')).join(' ');

describe('philox', () => {
  // known answers of Random123, the authors' implementation
  it.each([
    [[0, 0, 0, 0], [0, 0], '6627e8d5 e169c58d bc57ac4c 9b00dbd8'],
    [
      [0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff],
      [0xffffffff, 0xffffffff],
      '408f276d 41c83b0e a20bc7c6 6d5451fd',
    ],
    [
      [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
      [0xa4093822, 0x299f31d0],
      'd16cfe09 94fdcceb 5001e420 24126ea1',
    ],
  ] as const)('gives the known answer for counter %o', (counter, key, expected) => {
    expect(hex(philox(key, counter))).toBe(expected);
  });
});
