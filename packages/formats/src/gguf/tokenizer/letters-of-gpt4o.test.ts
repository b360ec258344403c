import { expect, it } from 'vitest';
import { tokenWithOtherMerges } from './letters-of-gpt4o.js';

/** Writes bytes as the characters with which byte-level vocabularies represent them. */
function showBytes(bytes: Uint8Array): string {
  const isShown = (byte: number): boolean =>
    (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  let next = 256;
  const characters = Array.from({ length: 256 }, (_, byte) => (isShown(byte) ? byte : next++));
  return String.fromCharCode(...[...bytes].map((byte) => characters[byte]!));
}

const makeToken = (text: string): string => showBytes(new TextEncoder().encode(text));

it.each([
  ' the',
  'aB',
  'iPhone',
  'café',
  ' Éco',
  'ПРИВЕТ',
  'Привет',
  'ह',
  'の中',
  '😀',
  '\u0301',
  '123',
  ' ...',
])('finds the same splitting for %j', (text) =>
  expect(tokenWithOtherMerges([makeToken(text)])).toBeUndefined(),
);

it.each(['aÉ', 'éA', 'приветП', 'e\u0301', 'हि', 'a中Ж', '.\u0301'])(
  'finds another splitting for %j',
  (text) => expect(tokenWithOtherMerges(['Ġthe', makeToken(text)])).toBe(text),
);

it('takes parts of one character, and no bytes of two', () => {
  const [part, spaced] = [Uint8Array.of(0xd0), Uint8Array.of(32, 0xe0, 0xa4)].map(showBytes);
  expect(tokenWithOtherMerges([part!, spaced!, showBytes(Uint8Array.of(0x80, 0xbf))])).toBeUndefined();
  const two = showBytes(Uint8Array.of(0xbf, 0xd0));
  expect(tokenWithOtherMerges([two])).toBe(two);
});
