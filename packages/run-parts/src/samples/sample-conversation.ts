import type { Tokenizer } from '@mtl/data';
import { chatTokens, contentForPeople, readChatTemplate, readConversations } from '@mtl/data/conversations';
import { stopTokensOf } from '../conversations/turn-tokens.js';

/** A conversation up to where the model goes on. Plain data, which ranks broadcast. */
export interface ConversationPrompt {
  /** The messages, a line each. */
  readonly text: string;
  readonly tokens: readonly number[];
  /** Tokens that end the answer. */
  readonly stopTokens: readonly number[];
}

/**
 * Returns the first conversation of a file up to its first answer, as a prompt; undefined where none has any.
 */
export async function sampleConversation(
  path: string,
  tokenizer: Tokenizer,
): Promise<ConversationPrompt | undefined> {
  const template = readChatTemplate(tokenizer);
  for await (const { messages: all, tools, where } of readConversations(path)) {
    const messages = all.slice(
      0,
      all.findIndex(({ role }) => role === 'assistant'),
    );
    if (messages.length === 0) continue;
    const { text } = template.render({ messages, tools, addsGenerationPrompt: true, where });
    return {
      text: messages.map(({ role, content }) => `${role}: ${contentForPeople(content)}`).join('\n'),
      tokens: Array.from(chatTokens(tokenizer, text)),
      stopTokens: stopTokensOf(template, { tokenizer }),
    };
  }
  return undefined;
}
