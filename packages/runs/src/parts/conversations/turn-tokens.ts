import type { ChatTemplate } from '@mtl/chat-templates';
import { type EndOfTurn, endOfTurn, findChatTemplate } from '@mtl/data/conversations';
import type { Tokenizer } from '@mtl/tokenizers';

/**
 * Returns the tokens that end an answer: the end of a turn in the chat template, and the tokens that end any
 * text.
 *
 * @param of.endTokens the tokens that end any text. Default: the end of a document
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
 * Returns the tokens that end a text of the model: the end of a document and, if the tokenizer has a chat
 * template, the end of a turn.
 */
export function listEndTokens(tokenizer: Tokenizer): readonly number[] {
  try {
    const template = findChatTemplate(tokenizer);
    const turn = template && endOfTurn(template, tokenizer);
    return [...new Set([tokenizer.eod, ...listTokens(turn)])];
  } catch {
    // the error in an unusable chat template is reported later, when conversations are rendered
    return [tokenizer.eod];
  }
}

/** Returns the tokens that end an answer: the end of the turn, and tokens that begin a new turn. */
function listTokens(turn: EndOfTurn | undefined): readonly number[] {
  if (turn === undefined) return [];
  return [turn.token, ...(turn.unwritten?.markers ?? []).map(({ token }) => token)];
}
