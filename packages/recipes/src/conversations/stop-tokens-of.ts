import { endOfTurn, readChatTemplate, type Tokenizer } from '@mtl/data';

/**
 * Tokens that end an answer: that of the end of a turn in the tokenizer's chat template, and those that end
 * texts.
 *
 * @param endTokens default: the end of a document
 * @throws DataError MTL_CHAT_TEMPLATE where the tokenizer has none
 */
export function stopTokensOf(
  tokenizer: Tokenizer,
  endTokens: readonly number[] = [tokenizer.eod],
): readonly number[] {
  const turn = endOfTurn(readChatTemplate(tokenizer), tokenizer);
  return [...new Set([...(turn === undefined ? [] : [turn.token]), ...endTokens])];
}
