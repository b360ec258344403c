import { int32s, type Metadata, texts } from '../metadata.js';
import { tokenizerRefused } from './tokenizer-files.js';

/** llama.cpp's codes for the kinds of tokens that are written (see `llama_token_type` in llama.h). */
export const tokenKinds = { normal: 1, unknown: 2, control: 3, userDefined: 4, unused: 5 } as const;

/** A token of a vocabulary. */
export interface ListedToken {
  readonly text: string;
  readonly kind: (typeof tokenKinds)[keyof typeof tokenKinds];
}

/**
 * Returns the metadata that contains a file's list of tokens. Ids that the tokenizer does not use get
 * placeholder names, because the model's embedding has rows for these ids.
 *
 * @throws CheckpointError MTL_GGUF_TOKENIZER for an id beyond the model's vocabulary
 */
export function tokenListMetadata(
  tokens: ReadonlyMap<number, ListedToken>,
  vocabularySize: number,
): Metadata {
  // `Math.max(...ids)` would overflow the stack for a large vocabulary
  let last = -1;
  for (const id of tokens.keys()) last = Math.max(last, id);
  if (last >= vocabularySize) {
    throw tokenizerRefused(
      `the tokenizer has the id ${last}, and the model has ${vocabularySize} tokens`,
      `ids from 0 to ${vocabularySize - 1}`,
      'pass the tokenizer that the model was trained with',
    );
  }
  const all = Array.from(
    { length: vocabularySize },
    (_, id): ListedToken => tokens.get(id) ?? { text: `[PAD${id}]`, kind: tokenKinds.unused },
  );
  return {
    'tokenizer.ggml.tokens': texts(all.map(({ text }) => text)),
    'tokenizer.ggml.token_type': int32s(all.map(({ kind }) => kind)),
  };
}
