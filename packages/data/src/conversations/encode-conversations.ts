import type { Tokenizer } from '../tokenizers/tokenizer.js';
import { assistantSpans } from './assistant-spans.js';
import type { ChatTemplate } from './chat-template.js';
import type { Conversation } from './conversation.js';
import { conversationError } from './conversation-error.js';
import { endOfTurn } from './end-of-turn.js';
import type { EncodedConversation } from './pack-conversations.js';
import { tokensInSpans } from './tokens-in-spans.js';

/** What is done with a conversation of more tokens than a sample holds. */
export const longConversationRules = ['refuse', 'truncate', 'drop'] as const;
export type LongConversationRule = (typeof longConversationRules)[number];

export interface EncodeConversationsOptions {
  readonly conversations: AsyncIterable<Conversation>;
  readonly template: ChatTemplate;
  readonly tokenizer: Tokenizer;
  readonly sequenceLength: number;
  /** `refuse`: an error; `truncate`: only its first tokens; `drop`: without it. */
  readonly long: LongConversationRule;
}

/** How conversations became tokens. */
export interface ConversationCounts {
  /** Conversations that were read. */
  read: number;
  /** Longer than a sample: cut to its length. */
  truncated: number;
  /** Longer than a sample: left out. */
  dropped: number;
  /** Left out because none of their tokens is learnt, such as those cut before the first answer. */
  withoutAnswer: number;
  /** With an answer that begins or ends inside a token. */
  splitTokens: number;
  /** Of those that are kept. */
  tokens: number;
  /** Tokens that are learnt. */
  learnt: number;
}

/**
 * Conversations as tokens, with those marked that the assistant says.
 *
 * @throws DataError MTL_DATA_CONVERSATION, MTL_CHAT_TEMPLATE naming the conversation
 */
export async function encodeConversations(
  options: EncodeConversationsOptions,
): Promise<{ readonly encoded: readonly EncodedConversation[]; readonly counts: ConversationCounts }> {
  const { conversations, template, tokenizer } = options;
  const end = endOfTurn(template, tokenizer)?.text;
  const encoded: EncodedConversation[] = [];
  const counts: ConversationCounts = {
    read: 0,
    truncated: 0,
    dropped: 0,
    withoutAnswer: 0,
    splitTokens: 0,
    tokens: 0,
    learnt: 0,
  };
  for await (const conversation of conversations) {
    counts.read += 1;
    const { tokens, isInSpan, splitsTokens } = tokensInSpans(
      assistantSpans({ conversation, template, endOfTurn: end }),
      tokenizer,
    );
    const count = keptTokens(tokens.length, { conversation, options, counts });
    if (count === 0) continue;
    const isLearnt = isInSpan.slice(0, count);
    // the first token is given, never predicted
    const learnt = isLearnt.reduce((sum, one, index) => (index === 0 ? 0 : sum + one), 0);
    if (learnt === 0) {
      counts.withoutAnswer += 1;
      continue;
    }
    if (splitsTokens) counts.splitTokens += 1;
    counts.tokens += count;
    counts.learnt += learnt;
    encoded.push({ tokens: Int32Array.from(tokens).slice(0, count), isLearnt });
  }
  return { encoded, counts };
}

function keptTokens(
  count: number,
  of: {
    readonly conversation: Conversation;
    readonly options: EncodeConversationsOptions;
    readonly counts: ConversationCounts;
  },
): number {
  const { sequenceLength, long } = of.options;
  // the last token is only predicted
  const most = sequenceLength + 1;
  if (count <= most) return count;
  if (long === 'refuse') {
    throw conversationError(of.conversation.where, `has ${count} tokens`, {
      expected: `at most ${most}: --seq-length ${sequenceLength}, and the last token is only predicted`,
      remedy: 'pass a larger --seq-length, --long-conversations truncate, or --long-conversations drop',
    });
  }
  of.counts[long === 'truncate' ? 'truncated' : 'dropped'] += 1;
  return long === 'truncate' ? most : 0;
}
