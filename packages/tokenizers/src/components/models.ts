import type { TokenizerJson } from '../check-tokenizer-json.js';
import type { Fail } from '../tokenizer-files.js';
import { wordPieceSplitter } from '../word-piece.js';
import { bytePairModel } from './byte-pair-model.js';
import { unigramModel } from './unigram-model.js';

/** Returns the ids of a word; undefined stands for a part without a token. */
export type Model = (word: string) => readonly (number | undefined)[];

/**
 * Returns a checked model, with the ids of its tokens, as tokenizers 0.23 has it.
 *
 * @param fail called for wrong merges, which are read here
 */
export function makeModel(
  model: TokenizerJson['model'],
  ids: ReadonlyMap<string, number>,
  fail: Fail,
): Model {
  switch (model.type) {
    case 'Unigram':
      return unigramModel(model, ids);
    case 'BPE':
      return bytePairModel(model, ids, fail);
    case 'WordPiece': {
      const split = wordPieceSplitter(model, ids);
      return (word) => split(word).map(({ token }) => ids.get(token));
    }
    case 'WordLevel': {
      const unknownId = ids.get(model.unk_token!);
      return (word) => [ids.get(word) ?? unknownId];
    }
  }
}
