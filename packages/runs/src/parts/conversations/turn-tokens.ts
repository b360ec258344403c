import type { ChatTemplate } from '@mtl/chat-templates';
import { type EndOfTurn, endOfTurn, findChatTemplate } from '@mtl/data/conversations';
import type { Tokenizer } from '@mtl/tokenizers';

/**
 * Returns the tokens that end an answer: the end of a turn in a chat template, and the tokens that end texts.
 *
 * @param of.endTokens default: the end of a document
 */
export function listStopTokens(
  template: ChatTemplate,
  of: { readonly tokenizer: Tokenizer; readonly endTokens?: readonly number[] },
): readonly number[] {
  const { tokenizer, endTokens = [tokenizer.eod] } = of;
  const turn = endOfTurn(template, tokenizer);
  return [...new Set([...listTokens(turn), ...endTokens])];
}

/**
 * Returns the tokens that end texts of a model: the end of a document, and the end of a turn if its tokenizer
 * has one.
 */
export function listEndTokens(tokenizer: Tokenizer): readonly number[] {
  try {
    const template = findChatTemplate(tokenizer);
    const turn = template && endOfTurn(template, tokenizer);
    return [...new Set([tokenizer.eod, ...listTokens(turn)])];
  } catch {
    // unusable files are reported when conversations are rendered with them
    return [tokenizer.eod];
  }
}

/** Returns the end of a turn, and the tokens that begin a turn and so end the previous one. */
function listTokens(turn: EndOfTurn | undefined): readonly number[] {
  if (turn === undefined) return [];
  return [turn.token, ...(turn.unwritten?.markers ?? []).map(({ token }) => token)];
}
