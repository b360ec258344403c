import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { createTokenizer } from '../create-tokenizer.js';
import { searchLimits } from './bounded-matching.js';
import { mayBacktrack } from './pattern-cost.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-data-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** Opens a tokenizer with this pre-tokenizer. */
function open(preTokenizer: object) {
  const tokenizerModel = join(directory, 'tokenizer.json');
  const model = { type: 'BPE', vocab: { '<eos>': 0, a: 1, '\n': 2, '\n\n': 3 }, merges: [['\n', '\n']] };
  writeFileSync(tokenizerModel, JSON.stringify({ model, pre_tokenizer: preTokenizer }));
  return createTokenizer({ type: 'HuggingFaceTokenizer', tokenizerModel });
}

const split = (expression: string) => ({
  type: 'Split',
  pattern: { Regex: expression },
  behavior: 'Isolated',
  invert: false,
});

// tokenizer-json.test.ts compares the results of patterns with the tokenizers library
describe('patterns of a tokenizer.json', () => {
  it('keep a blank line in one word where the quantifier is possessive', async () => {
    const tokenizer = await open(split('[a-z]++|\\s++$|\\s*[\\r\\n]|\\s'));
    expect(tokenizer.encode('a\n\na')).toEqual([1, 3, 1]);
  });

  it.each(['(', '[z-a]', '(?s)a', '(?<='])('name the expression %s, which is none', async (expression) => {
    await expect(open(split(expression))).rejects.toMatchObject({
      code: 'MTL_DATA_TOKENIZER',
      message: expect.stringContaining(`the expression ${JSON.stringify(expression)}`),
    });
  });

  it('refuse a behavior and a length that are none', async () => {
    await expect(open({ ...split('a'), behavior: 'Merged' })).rejects.toMatchObject({
      code: 'MTL_DATA_TOKENIZER',
      message: expect.stringContaining('pre_tokenizer.behavior is "Merged"'),
    });
    await expect(open({ type: 'FixedLength', length: 0 })).rejects.toMatchObject({
      code: 'MTL_DATA_TOKENIZER',
      message: expect.stringContaining('pre_tokenizer.length is 0'),
    });
  });

  const { start } = searchLimits;
  afterEach(() => {
    searchLimits.start = start;
  });

  // a text of 28 characters, for which an unlimited search would take 2^60 steps
  it.each(['(?:[a-z]+[a-z0-9]*)+[^a-z0]', '(?>x|(?:(?:a|aa)+|(?:a)+)+b)'])(
    'end a search that backtracks, by %s',
    async (expression) => {
      searchLimits.start = 40;
      const tokenizer = await open(split(expression));
      const started = performance.now();
      expect(() => tokenizer.encode('a'.repeat(60))).toThrow(
        expect.objectContaining({
          code: 'MTL_DATA_TOKENIZER',
          message: expect.stringMatching(
            /pre_tokenizer\.pattern .* more than 41 ms in a text of 60 characters/,
          ),
          remedy: expect.stringContaining('rewrite the pattern'),
        }),
      );
      // the limit allows for both attempts on a busy machine
      expect(performance.now() - started).toBeLessThan(2000);
    },
  );

  it('are searched with a limit only where they can backtrack', () => {
    const published = [
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
      "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s",
      "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s)?|\\p{N}{1,3}|\\s+",
    ];
    const text = 'The quick brown fox jumps over 13 lazy dogs.\n\n'.repeat(1000);
    for (const expression of published) expect(mayBacktrack(expression)(text)).toBe(false);
    expect(mayBacktrack(published[0]!)(`${text}${' '.repeat(2000)}`)).toBe(true);
    for (const nested of ['(?:a+)+b', '(a|aa)*b', '(?:a?){28}b', '(a)\\1*b'])
      expect(mayBacktrack(nested)('a')).toBe(true);
    expect(mayBacktrack('a*b')('a'.repeat(2000))).toBe(true);
    expect(mayBacktrack('a*b')('ab'.repeat(2000))).toBe(false);
    for (const quadratic of ['a++b', '(?<=a*)[ab]c', '(?=a+)[ab]c', '(?!a*b)a|c'])
      expect([quadratic, mayBacktrack(quadratic)('a'.repeat(2000))]).toEqual([quadratic, true]);
    for (const fast of ['a++', '[ab]++', 'ba?+c', 'a*+b?+', '(?<=a)[ab]c'])
      expect([fast, mayBacktrack(fast)('ba'.repeat(400))]).toEqual([fast, false]);
    for (const expression of published.slice(0, 2))
      expect(mayBacktrack(expression)('a'.repeat(5000))).toBe(false);
    expect(mayBacktrack('a*b*c')('a'.repeat(40))).toBe(true);
  });
});
