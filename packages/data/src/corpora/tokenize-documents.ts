import { DataError } from '@mtl/errors';
import { type TokenArray, type TokenDtype, tokenDtypes } from '../indexed/token-dtype.js';
import type { Tokenizer } from '../tokenizers/tokenizer.js';
import type { SentenceSplitter } from './sentence-splitter.js';

/** The tokens of several documents, end to end. */
export interface TokenizedDocuments {
  readonly tokens: TokenArray;
  /** int32: tokens of each sequence, none of them empty. */
  readonly lengths: Int32Array;
  /** int32: sequences of each document: its sentences, or one; 0 for a document without tokens. */
  readonly sequences: Int32Array;
}

/**
 * Tokenizes documents; with `appendEod` every document that has tokens gets the end-of-document token, behind
 * its last sentence. Sentences without tokens are left out.
 */
export function tokenizeDocuments(options: {
  readonly texts: readonly string[];
  readonly tokenizer: Tokenizer;
  readonly appendEod: boolean;
  readonly dtype: TokenDtype;
  /** Makes a sequence of every sentence; without it every document is one sequence. */
  readonly splitSentences?: SentenceSplitter | undefined;
}): TokenizedDocuments {
  const { texts, tokenizer, appendEod, dtype, splitSentences } = options;
  const sequences = new Int32Array(texts.length);
  const lengths: number[] = [];
  const parts: ArrayLike<number>[] = [];
  let total = 0;
  for (const [i, text] of texts.entries()) {
    for (const sentence of splitSentences?.(text) ?? [text]) {
      const ids = tokenizer.encode(sentence);
      if (ids.length === 0) continue;
      checkIds(ids, tokenizer);
      parts.push(ids);
      lengths.push(ids.length);
      total += ids.length;
      sequences[i]!++;
    }
    if (!appendEod || sequences[i] === 0) continue;
    parts.push([tokenizer.eod]);
    lengths[lengths.length - 1]!++;
    total++;
  }
  const tokens = tokenDtypes[dtype].create(total) as Int32Array;
  let offset = 0;
  for (const ids of parts) {
    tokens.set(ids, offset);
    offset += ids.length;
  }
  return { tokens, lengths: Int32Array.from(lengths), sequences };
}

/** Refuses ids beyond the size that the tokenizer reports: the element type would silently truncate them. */
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
