import type { TokenizerJson } from '../check-tokenizer-json.js';
import type { Fail } from '../tokenizer-files.js';
import { wordPieceSplitter } from '../word-piece.js';
import { bytePairModel } from './byte-pair-model.js';
import { unigramModel } from './unigram-model.js';

/** Returns the ids of a word. An undefined id represents a part without a token. */
export type Model = (word: string) => readonly (number | undefined)[];

/**
 * Makes a model that encodes exactly like version 0.23 of the `tokenizers` library, given a checked
 * tokenizer.json and the ids of its tokens.
 *
 * @param fail called for invalid merges, which have not been checked before
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
