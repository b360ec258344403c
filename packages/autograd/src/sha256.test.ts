import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { sha256 } from './sha256.js';

const hexadecimal = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

describe('sha256', () => {
  it('agrees with the published value for abc', () => {
    expect(hexadecimal(sha256('abc'))).toBe(
      'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
    );
  });

  it('agrees with OpenSSL for every length up to three blocks, and for letters of several bytes', () => {
    const texts = Array.from({ length: 150 }, (_, length) =>
      `${length}`.padEnd(length, 'abc').slice(0, length),
    );
    for (const text of [...texts, 'Ölweiß\u0000 \u{1f600}'.repeat(9)]) {
      expect(hexadecimal(sha256(text)), text).toBe(createHash('sha256').update(text).digest('hex'));
    }
  });
});
