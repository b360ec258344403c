import type { Continuation } from '@mtl/inference';
import type { Tokenizer } from '@mtl/tokenizers';

/**
 * Returns the ids of a separate text. It begins with the tokens that the tokenizer adds to the beginning of a
 * text, such as BOS, as in the transformers library. If the text already begins with these tokens, they are
 * not added again.
 */
export function encodeText(tokenizer: Tokenizer, text: string): number[] {
  const ids = Array.from(tokenizer.encode(text));
  const { startIds = [] } = tokenizer;
  return startIds.every((id, index) => ids[index] === id) ? ids : [...startIds, ...ids];
}

/**
 * Encodes context and continuation as one text, and splits the tokens after the number of tokens of the
 * context alone. Spaces at the end of the context belong to the continuation. lm-evaluation-harness 0.4.13
 * does the same.
 */
export function encodePair(tokenizer: Tokenizer, context: string, continuation: string): Continuation {
  const all = encodeText(tokenizer, context + continuation);
  const count = encodeText(tokenizer, context.trimEnd()).length;
  return {
    // without context, the continuation follows the end of another text
    context: count === 0 ? [tokenizer.eod] : all.slice(0, count),
    target: all.slice(count),
  };
}
