import { gpt2WordPattern } from './gpt2-word-pattern.js';

/** What a pre-tokenizer of the library looks like to us. */
interface LibraryPreTokenizer {
  readonly tokenizers?: readonly (LibraryPreTokenizer | null)[];
  pattern?: RegExp;
  readonly byte_encoder?: unknown;
}

/**
 * Corrects pre-tokenizers of @huggingface/tokenizers 0.2.0, in place, where the reference implementation (the
 * tokenizers library) gives other words: its white space is Unicode's White_Space, which has U+0085 and not
 * U+FEFF.
 */
export function correctPreTokenizer(preTokenizer: unknown): void {
  // Instances of the library can be called: they are functions.
  const found = preTokenizer as LibraryPreTokenizer | null | undefined;
  if (found === null || found === undefined) return;
  for (const part of found.tokenizers ?? []) correctPreTokenizer(part);
  if (found.byte_encoder !== undefined) found.pattern = gpt2WordPattern;
}
