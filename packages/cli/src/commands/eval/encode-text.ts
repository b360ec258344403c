import type { Continuation } from '@mtl/inference';
import type { Tokenizer } from '@mtl/tokenizers';

/**
 * Returns the ids of a text of its own: with the tokens that begin one, such as BOS, where the tokenizer puts
 * them there, as the transformers library does. A text that spells them out gets no second ones.
 */
export function encodeText(tokenizer: Tokenizer, text: string): number[] {
  const ids = Array.from(tokenizer.encode(text));
  const { startIds = [] } = tokenizer;
  return startIds.every((id, index) => ids[index] === id) ? ids : [...startIds, ...ids];
}

/**
 * Encodes context and continuation as one text, and splits it where the context alone ends; spaces at the end
 * of the context belong to the continuation. So does lm-evaluation-harness 0.4.13.
 */
export function encodePair(tokenizer: Tokenizer, context: string, continuation: string): Continuation {
  const all = encodeText(tokenizer, context + continuation);
  const count = encodeText(tokenizer, context.trimEnd()).length;
  return {
    // a text of its own begins after the end of another
    context: count === 0 ? [tokenizer.eod] : all.slice(0, count),
    target: all.slice(count),
  };
}
