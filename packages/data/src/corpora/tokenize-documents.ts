import { DataError } from '@mtl/errors';
import { type TokenArray, type TokenDtype, tokenDtypes } from '../indexed/token-dtype.js';
import type { Tokenizer } from '../tokenizers/tokenizer.js';

/** The tokens of several documents, end to end. */
export interface TokenizedDocuments {
  readonly tokens: TokenArray;
  /** int32: tokens of each document; 0 for one without any. */
  readonly lengths: Int32Array;
}

/** Tokenizes documents; with `appendEod` every document that has tokens gets the end-of-document token. */
export function tokenizeDocuments(options: {
  readonly texts: readonly string[];
  readonly tokenizer: Tokenizer;
  readonly appendEod: boolean;
  readonly dtype: TokenDtype;
}): TokenizedDocuments {
  const { texts, tokenizer, appendEod, dtype } = options;
  const lengths = new Int32Array(texts.length);
  const parts: ArrayLike<number>[] = [];
  let total = 0;
  for (const [i, text] of texts.entries()) {
    const ids = tokenizer.encode(text);
    parts.push(ids);
    lengths[i] = ids.length > 0 && appendEod ? ids.length + 1 : ids.length;
    total += lengths[i]!;
  }
  const tokens = tokenDtypes[dtype].create(total) as Int32Array;
  let offset = 0;
  for (const [i, ids] of parts.entries()) {
    checkIds(ids, tokenizer);
    tokens.set(ids, offset);
    offset += lengths[i]!;
    if (lengths[i]! > ids.length) tokens[offset - 1] = tokenizer.eod;
  }
  return { tokens, lengths };
}

/** A tokenizer that lies about its size would be cut off silently by the element type. */
function checkIds(ids: ArrayLike<number>, tokenizer: Tokenizer): void {
  for (let i = 0; i < ids.length; i++) {
    const id = ids[i]!;
    if (id >= 0 && id < tokenizer.vocabularySize) continue;
    throw new DataError('MTL_DATA_TOKEN_OUT_OF_VOCABULARY', `${tokenizer.name} made the token ${id}`, {
      expected: `integers from 0 to ${tokenizer.vocabularySize - 1}`,
      remedy: 'check that the files of the tokenizer belong together',
    });
  }
}
