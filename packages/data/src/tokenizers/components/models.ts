import type { TokenizerJson } from '../check-tokenizer-json.js';
import { wordPieceSplitter } from '../word-piece.js';
import { bytePairModel } from './byte-pair-model.js';
import { unigramModel } from './unigram-model.js';

/** Returns the ids of a word; an undefined one stands for a part without a token. */
export type Model = (word: string) => readonly (number | undefined)[];

/** Returns the ids of a model's tokens; of equal tokens of Unigram the last one counts. */
export function vocabularyOf({ vocab }: TokenizerJson['model']): Map<string, number> {
  return Array.isArray(vocab)
    ? new Map(vocab.map(([token], id) => [token as string, id]))
    : new Map(Object.entries(vocab as Readonly<Record<string, number>>));
}

/** Returns a checked model, with the ids of its tokens, as tokenizers 0.23 has it. */
export function makeModel(model: TokenizerJson['model'], ids: ReadonlyMap<string, number>): Model {
  switch (model.type) {
    case 'Unigram':
      return unigramModel(model, ids);
    case 'BPE':
      return bytePairModel(model, ids);
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
