import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TextStream } from './text-stream.js';

// in this test, tokens are bytes; a byte order mark at the start must be kept
const decode = (tokens: readonly number[]): string =>
  new TextDecoder('utf-8', { ignoreBOM: true }).decode(Uint8Array.from(tokens));

describe('TextStream', () => {
  it('gives each character once all its tokens are there', () => {
    const stream = new TextStream(decode);
    const parts = [...new TextEncoder().encode('aé→😀')].map((token) => stream.push(token));
    expect(parts).toEqual(['a', '', 'é', '', '', '→', '', '', '', '😀']);
    expect(stream.end()).toBe('');
  });

  it('gives the whole text in the end, whatever the bytes', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.uint8Array(),
          fc.string({ unit: 'binary' }).map((text) => new TextEncoder().encode(text)),
        ),
        (bytes) => {
          const stream = new TextStream(decode);
          const parts = [...bytes].map((token) => stream.push(token));
          expect(parts.join('') + stream.end()).toBe(decode([...bytes]));
        },
      ),
      { numRuns: 500 },
    );
  });

  it('keeps what a decoder makes of the start of a text out of the middle', () => {
    // this decodes like SentencePiece: words begin with a space, and the first word loses its space
    const words = [' the', ' red', ' fox'];
    const stream = new TextStream((tokens) =>
      tokens
        .map((token) => words[token])
        .join('')
        .slice(1),
    );
    expect([0, 1, 2, 1].map((token) => stream.push(token))).toEqual(['the', ' red', ' fox', ' red']);
  });
});
