import { endOfText } from '../tokenizers/gpt2-vocabulary.js';
import type { Tokenizer } from '../tokenizers/tokenizer.js';

/**
 * Ids of a rendered conversation: texts of special tokens are these tokens. Tokenizers that are built in take
 * all text for plain text; here `<|endoftext|>` ends a document in them too.
 */
export function chatTokens(tokenizer: Tokenizer, text: string): Int32Array | number[] {
  if (tokenizer.specialIds !== undefined || !text.includes(endOfText)) return tokenizer.encode(text);
  return text
    .split(endOfText)
    .flatMap((part, index) => [...(index === 0 ? [] : [tokenizer.eod]), ...tokenizer.encode(part)]);
}
