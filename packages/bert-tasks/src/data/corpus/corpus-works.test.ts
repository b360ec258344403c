import { describe, expect, it } from 'vitest';
import { CorpusWords } from './corpus-works.js';

const words = new CorpusWords([
  ['Ships and sails.', 'Ships and oars!'],
  ['Bread and butter.'],
  ['Butter, bread, sails and salt.'],
  ['Ships and sails.'],
]);

describe('CorpusWords', () => {
  it('ranks words by their number, equal ones by the alphabet', () => {
    const expected = ['and', 'sails', 'ships', 'bread', 'butter', 'oars', 'salt'];
    expect([...words.rankOf.keys()]).toEqual(expected);
    expect(words.rankOf.get('butter')).toBe(4);
    expect(words.listWords(2, { first: 1, last: 5.5 })).toEqual(['sails', 'bread', 'butter']);
  });

  it('knows what a work uses, whatever its case', () => {
    expect([words.has(0, 'ships'), words.has(0, 'bread')]).toEqual([true, false]);
  });

  it('orders other works by the words they share, without words that all works use', () => {
    // Idf computed by hand: ln 4/3 = 0.29 for sails; ln 2 = 0.69 for ships, bread, butter; ln 4 = 1.39 for
    // oars, salt.
    expect(words.othersByLikeness(0)).toEqual([3, 2, 1]);
    expect(words.othersByLikeness(1)).toEqual([2, 0, 3]);
    expect(words.othersByLikeness(2)).toEqual([1, 3, 0]);
  });
});
