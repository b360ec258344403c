import { DataError } from '@mtl/errors';
import type { Tokenizer } from '../tokenizers/tokenizer.js';

/** What masking must know of a vocabulary; plain data that worker threads receive. */
export interface MaskingVocabulary {
  /** One more than the largest id. */
  readonly size: number;
  readonly classification: number;
  readonly separator: number;
  readonly mask: number;
  readonly padding: number;
  /** uint8 [size]: 1 for tokens that continue a word (`##`). */
  readonly continues: Uint8Array;
  /** int32, ascending: the ids that there are; random replacements come from them. */
  readonly ids: Int32Array;
}

/**
 * Reads the vocabulary of a WordPiece tokenizer. Throws `MTL_DATA_SPECIAL_TOKEN` where a special token is
 * missing.
 */
export function maskingVocabulary(tokenizer: Tokenizer): MaskingVocabulary {
  const { tokenIds, vocabularySize: size, name } = tokenizer;
  if (tokenIds === undefined) {
    throw new DataError('MTL_DATA_SPECIAL_TOKEN', `${name} has no list of tokens to find [MASK] in`, {
      expected: 'a WordPiece vocabulary with [CLS], [SEP], [MASK] and [PAD]',
      remedy:
        'use BertWordPieceLowerCase or BertWordPieceCase with --vocab-file, or HuggingFaceTokenizer with a ' +
        'tokenizer.json of mtl data train-tokenizer --type wordpiece',
    });
  }
  const continues = new Uint8Array(size);
  for (const [token, id] of tokenIds) if (token.startsWith('##')) continues[id] = 1;
  return {
    size,
    classification: specialTokenId(tokenizer, '[CLS]'),
    separator: specialTokenId(tokenizer, '[SEP]'),
    mask: specialTokenId(tokenizer, '[MASK]'),
    padding: specialTokenId(tokenizer, '[PAD]'),
    continues,
    ids: Int32Array.from(new Set(tokenIds.values())).sort(),
  };
}

/** The id of a token that must be there. Throws `MTL_DATA_SPECIAL_TOKEN`. */
export function specialTokenId({ tokenIds, name }: Tokenizer, token: string): number {
  const id = tokenIds?.get(token);
  if (id !== undefined) return id;
  const near = [...(tokenIds?.keys() ?? [])].filter((known) => /^(\[[A-Z]|<[a-z|/])/.test(known)).slice(0, 8);
  throw new DataError('MTL_DATA_SPECIAL_TOKEN', `the vocabulary of ${name} has no token ${token}`, {
    expected: `${token}; its special tokens are ${near.length === 0 ? 'none' : near.join(' ')}`,
    remedy: `add a line ${token} to the vocabulary, or train one with mtl data train-tokenizer --type wordpiece`,
  });
}
