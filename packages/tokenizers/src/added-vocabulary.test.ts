import { expect, it } from 'vitest';
import { type AddedToken, AddedVocabulary, tokensById } from './added-vocabulary.js';

const token = (content: string): AddedToken => ({
  content,
  special: false,
  normalized: false,
  single_word: false,
  lstrip: false,
  rstrip: false,
});
const idsIn = (vocabulary: AddedVocabulary) => vocabulary.inOrder().map(({ content, id }) => [content, id]);

it('numbers new tokens behind all entries of the model and behind those that were added', () => {
  const ids = new Map([
    ['a', 2],
    ['far', 9],
  ]);
  const vocabulary = new AddedVocabulary(ids, { modelTokens: tokensById(ids), numEntries: 3 });
  vocabulary.add(['x', 'a', 'y', 'x'].map(token));
  expect(idsIn(vocabulary)).toEqual([
    ['a', 2],
    ['x', 3],
    ['y', 4],
  ]);
  vocabulary.add(['far', 'z'].map(token));
  expect(idsIn(vocabulary).slice(3)).toEqual([
    ['far', 9],
    ['z', 10],
  ]);
});

it('adds many tokens in linear time', () => {
  const count = 50_000;
  const vocabulary = new AddedVocabulary(new Map(), { modelTokens: [], numEntries: 0 });
  const started = performance.now();
  vocabulary.add(Array.from({ length: count }, (_, i) => token(`<${i}>`)));
  // this takes 0.05 s; if each token were compared with all the rest, it would take 10 s
  expect(performance.now() - started).toBeLessThan(2000);
  expect(vocabulary.findId(`<${count - 1}>`)).toBe(count - 1);
});
