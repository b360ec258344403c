import { ConfigurationError, DataError } from '@mtl/errors';
import type { Tokenizer } from './tokenizer.js';
import type { TokenizerOptions } from './tokenizer-options.js';

/**
 * For corpora that are ids already ("17 4 230"): the vocabulary is exactly `vocabSize`, the last id ends
 * documents.
 */
export function createNullTokenizer(
  options: Extract<TokenizerOptions, { type: 'NullTokenizer' }>,
): Tokenizer {
  const { vocabSize } = options;
  if (!Number.isInteger(vocabSize) || vocabSize < 1) {
    throw new ConfigurationError('MTL_DATA_TOKENIZER_SIZE', `a NullTokenizer of ${vocabSize} ids`, {
      expected: 'vocabSize (--vocab-size), the number of ids: a whole number of 1 or more',
    });
  }
  return {
    name: 'NullTokenizer',
    vocabularySize: vocabSize,
    eod: vocabSize - 1,
    identifiers: { class: 'mtl.NullTokenizer', vocab_size: String(vocabSize) },
    options,
    encode: (text) =>
      text.split(/\s+/).flatMap((word) => {
        if (word === '') return [];
        const id = Number(word);
        if (/^\d+$/.test(word) && id < vocabSize) return [id];
        throw new DataError('MTL_DATA_TOKEN_OUT_OF_VOCABULARY', `"${word}" is not a token id`, {
          expected: `integers from 0 to ${vocabSize - 1} with spaces between them`,
        });
      }),
    decode: (ids) => Array.from(ids).join(' '),
  };
}
