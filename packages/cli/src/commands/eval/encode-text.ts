import type { Continuation } from '@mtl/inference';
import type { Tokenizer } from '@mtl/tokenizers';

/**
 * Returns the ids of an independent text. As in the transformers library, the tokenizer's first tokens, such
 * as BOS, are added unless the text already begins with them.
 */
export function encodeText(tokenizer: Tokenizer, text: string): number[] {
  const ids = Array.from(tokenizer.encode(text));
  const { startIds = [] } = tokenizer;
  return startIds.every((id, index) => ids[index] === id) ? ids : [...startIds, ...ids];
}

/**
 * Encodes context and continuation as one text, as lm-evaluation-harness 0.4.13 does. If the context alone
 * has n tokens, the first n tokens count as the context, and the other tokens as the continuation. Spaces at
 * the end of the context belong to the continuation.
 */
export function encodePair(tokenizer: Tokenizer, context: string, continuation: string): Continuation {
  const all = encodeText(tokenizer, context + continuation);
  const count = encodeText(tokenizer, context.trimEnd()).length;
  return {
    // without a context, the continuation follows the token that ends a text
    context: count === 0 ? [tokenizer.eod] : all.slice(0, count),
    target: all.slice(count),
  };
}
