import type { Tokenizer } from '@mtl/data';
import { type ChatTemplate, endOfTurn } from '@mtl/data/conversations';

/**
 * Tokens that end an answer: that of the end of a turn in a chat template, and those that end texts.
 *
 * @param of.endTokens default: the end of a document
 */
export function stopTokensOf(
  template: ChatTemplate,
  of: { readonly tokenizer: Tokenizer; readonly endTokens?: readonly number[] },
): readonly number[] {
  const { tokenizer, endTokens = [tokenizer.eod] } = of;
  const turn = endOfTurn(template, tokenizer);
  return [...new Set([...(turn === undefined ? [] : [turn.token]), ...endTokens])];
}
