import { ConfigurationError, DataError } from '@mtl/errors';

/** Refuses a vocabulary that cannot hold what it must. */
export function checkVocabularySize(vocabularySize: number, smallest: number, holds: string): void {
  if (Number.isInteger(vocabularySize) && vocabularySize >= smallest && vocabularySize < 2 ** 24) return;
  throw new ConfigurationError(
    'MTL_DATA_VOCABULARY_SIZE',
    `a vocabulary of ${vocabularySize} cannot be trained`,
    {
      expected: `${smallest} (${holds}) to ${2 ** 24 - 1}`,
    },
  );
}

/** Refuses a text without words. */
export function checkWords(words: ReadonlyMap<string, number>): void {
  if (words.size > 0) return;
  throw new DataError('MTL_DATA_EMPTY_CORPUS', 'the files contain no text to train a tokenizer on', {
    remedy: 'check the input files and the JSON key',
  });
}
