import type { Tokenizer } from '@mtl/data';

export interface ContinuedTokens {
  readonly prompt: readonly number[];
  readonly continuation: readonly number[];
}

/**
 * The text of a prompt and of what a model wrote behind it. Tokens are decoded together, as some tokenizers
 * decode the first one of a text without the space before it.
 */
export function splitContinuation(
  tokenizer: Pick<Tokenizer, 'decode'>,
  { prompt: tokens, continuation }: ContinuedTokens,
): { readonly prompt: string; readonly completion: string } {
  const prompt = tokenizer.decode(tokens);
  const whole = tokenizer.decode([...tokens, ...continuation]);
  const completion = whole.startsWith(prompt) ? whole.slice(prompt.length) : tokenizer.decode(continuation);
  return { prompt, completion };
}
