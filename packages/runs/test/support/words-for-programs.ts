// Words of command lines for tests that start a program: they name the datasets of this package's tests.
import type { RunOptions } from '@mtl/configuration';
import { preparedCorpus } from './prepared-corpus.js';
import { preparedSentences } from './prepared-sentences.js';

/** Writes a small corpus with the bytes as tokens into a directory; returns the flags that name it. */
export const prepareCorpus = async (directory: string): Promise<readonly string[]> =>
  listWords(await preparedCorpus(directory));

/**
 * Writes a small corpus of sentences and its vocabulary into a directory; returns the flags that name them.
 */
export const prepareSentences = async (directory: string): Promise<readonly string[]> =>
  listWords(await preparedSentences(directory));

function listWords({ data }: RunOptions): readonly string[] {
  const { dataPath, tokenizerType, vocabFile } = data!;
  const vocabulary = vocabFile === undefined ? [] : ['--vocab-file', vocabFile];
  return ['--data-path', ...dataPath!, '--tokenizer-type', tokenizerType!, ...vocabulary];
}
