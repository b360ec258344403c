import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { detokenizeWikitext } from './wikitext-task.js';

const fixtures = new URL('../../../../fixtures/evaluation-tasks/', import.meta.url);
const read = (name: string): string => readFileSync(new URL(name, fixtures), 'utf8');

it('does what the rules do in Python, on a text where each rule applies', () => {
  const { detokenized } = JSON.parse(read('expected.json')) as { detokenized: string };
  expect(detokenizeWikitext(read('wikitext.txt'))).toBe(detokenized);
});

it.each([
  ['the boys ball ', 'the boys ball '],
  ["the boys ' ball", "the boys' ball"],
  ['well @-@ known , 1 @,@ 902 or 47 @.@ 5', 'well-known, 1,902 or 47.5'],
  ['one : two ; three . four ! five ? six , seven', 'one: two; three. four! five? six, seven'],
  ['( a ) [ b ] { c } " d " \' e \'', '(a) [b] {c} "d" \'e\''],
  // white space is defined as in Python, where a byte order mark is not white space
  ['( \u2003a \ufeff)', '(a \ufeff)'],
  ['= = x = = = y = = = =', '== x === y ===='],
  ['46 \u00b0 north', '46\u00b0north'],
  [' \n a N b \n', '\na 1 b\n'],
  // Megatron-LM does not change this text, because its rule for this case never applies
  ["in ' 98", "in ' 98"],
])('%j becomes %j', (text, expected) => {
  expect(detokenizeWikitext(text)).toBe(expected);
});
