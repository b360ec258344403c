import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BytePairEncoder } from './byte-pair-encoder.js';
import { loadGpt2Vocabulary } from './gpt2-vocabulary.js';

/**
 * Returns the tokens of a word according to the definition of byte-pair encoding: the first pair with the
 * lowest rank is merged until no pair can be merged.
 */
function mergeNaively(word: string, ids: ReadonlyMap<string, number>): number[] {
  const pieces = [...word];
  for (;;) {
    let lowest = Number.POSITIVE_INFINITY;
    let at = -1;
    for (let i = 0; i + 1 < pieces.length; i++) {
      const id = ids.get(pieces[i]! + pieces[i + 1]!) ?? Number.POSITIVE_INFINITY;
      if (id < lowest) [lowest, at] = [id, i];
    }
    if (at < 0) return pieces.map((piece) => ids.get(piece)!);
    pieces.splice(at, 2, pieces[at]! + pieces[at + 1]!);
  }
}

const numberTokens = (tokens: readonly string[]) => new Map(tokens.map((token, id) => [token, id]));

describe('BytePairEncoder', async () => {
  const gpt2 = numberTokens(await loadGpt2Vocabulary());

  it('merges the leftmost of equal pairs first', () => {
    const encoder = new BytePairEncoder(numberTokens(['a', 'b', 'aa', 'aab', 'aaa']));
    expect(encoder.encode('aaaaa')).toEqual([2, 4]);
    expect(encoder.encode('aabaab')).toEqual([3, 3]);
    expect(encoder.encode('')).toEqual([]);
  });

  it('gives the ids of the definition, with GPT-2 as vocabulary', () => {
    const encoder = new BytePairEncoder(gpt2);
    const pieces = [...gpt2.keys()].filter((token) => token.length < 6);
    const word = fc.oneof(
      fc.string({ unit: fc.constantFrom('a', 'e', 't', 'h', ' ', '=', '\xe6', '\x89'), maxLength: 80 }),
      fc.array(fc.constantFrom(...pieces), { maxLength: 20 }).map((parts) => parts.join('')),
      fc.uint8Array({ maxLength: 80 }).map((bytes) => Buffer.from(bytes).toString('latin1')),
    );
    fc.assert(
      fc.property(word, (text) => {
        expect(encoder.merge(text)).toEqual(mergeNaively(text, gpt2));
        expect([...encoder.encode(text)]).toEqual(encoder.merge(text));
      }),
      { numRuns: 500 },
    );
  });

  it('gives the ids of the definition, with few letters and many merges', () => {
    const vocabulary = fc.array(fc.string({ unit: fc.constantFrom('a', 'b'), minLength: 2, maxLength: 6 }), {
      maxLength: 30,
    });
    const word = fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 60 });
    fc.assert(
      fc.property(vocabulary, word, (merges, text) => {
        const ids = numberTokens([...new Set(['a', 'b', ...merges])]);
        expect(new BytePairEncoder(ids).merge(text)).toEqual(mergeNaively(text, ids));
      }),
      { numRuns: 500 },
    );
  });

  // an algorithm with quadratic time would take a minute
  it('encodes a word of 200,000 letters', { timeout: 30_000 }, () => {
    const encoder = new BytePairEncoder(gpt2);
    const ids = encoder.encode('a'.repeat(200_000));
    const tokens = [...gpt2.keys()];
    expect(ids.map((id) => tokens[id]!).join('')).toBe('a'.repeat(200_000));
  });
});
