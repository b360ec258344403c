import { UsageError } from '@mtl/errors';
import { writeFileAtomically } from '../files/write-files.js';
import type { TokenizerJson } from '../tokenizers/check-tokenizer-json.js';

/**
 * Writes the vocabulary of a WordPiece tokenizer as BERT's `vocab.txt` (atomically): one token a line, its
 * number the id. Hugging Face's BertTokenizer and `BertWordPieceLowerCase` read it.
 */
export function writeVocabularyText(path: string, tokenizer: TokenizerJson): void {
  const { type, vocab } = tokenizer.model;
  const tokens = Object.entries(vocab).sort(([, a], [, b]) => a - b);
  const dense = tokens.every(([token, id], i) => id === i && !/[\r\n]/.test(token));
  if (type !== 'WordPiece' || !dense) {
    throw new UsageError('MTL_DATA_TOKENIZER', `a ${type} tokenizer cannot be written as a vocab.txt`, {
      expected: 'a WordPiece vocabulary with the ids 0, 1, 2, ... and no line breaks in its tokens',
      remedy: 'write a tokenizer.json',
    });
  }
  writeFileAtomically(path, [`${tokens.map(([token]) => token).join('\n')}\n`]);
}
