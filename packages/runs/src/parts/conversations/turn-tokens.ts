import type { ChatTemplate } from '@mtl/chat-templates';
import { type EndOfTurn, endOfTurn, findChatTemplate } from '@mtl/data/conversations';
import type { Tokenizer } from '@mtl/tokenizers';

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
  return [...new Set([...tokensOf(turn), ...endTokens])];
}

/** Tokens that end texts of a model: the end of a document, and of a turn where its tokenizer knows turns. */
export function endTokensOf(tokenizer: Tokenizer): readonly number[] {
  try {
    const template = findChatTemplate(tokenizer);
    const turn = template && endOfTurn(template, tokenizer);
    return [...new Set([tokenizer.eod, ...tokensOf(turn)])];
  } catch {
    // files that cannot be used are reported where conversations are rendered with them
    return [tokenizer.eod];
  }
}

/** Returns the end of a turn, and the tokens that begin a turn and so end the one before it. */
function tokensOf(turn: EndOfTurn | undefined): readonly number[] {
  if (turn === undefined) return [];
  return [turn.token, ...(turn.unwritten?.markers ?? []).map(({ token }) => token)];
}
