import type { ChatTemplate } from '@mtl/chat-templates';
import type { Tokenizer } from '@mtl/tokenizers';
import { sharedFloat64Array, sharedInt32Array, sharedUint8Array } from '../files/typed-arrays.js';
import { assistantSpans } from './assistant-spans.js';
import { tokensInSpans } from './chat-tokens.js';
import { type Conversation, conversationError } from './conversation.js';
import type { PackedConversations } from './conversation-dataset.js';
import { endOfTurn } from './end-of-turn.js';

/** The rules for a conversation with more tokens than a sample holds. */
export const longConversationRules = ['refuse', 'truncate', 'drop'] as const;
/** The rule for a conversation that has more tokens than a sample. */
export type LongConversationRule = (typeof longConversationRules)[number];

interface EncodeConversationsOptions {
  readonly conversations: AsyncIterable<Conversation>;
  readonly template: ChatTemplate;
  readonly tokenizer: Tokenizer;
  readonly sequenceLength: number;
  /**
   * The rule for a conversation that has more tokens than a sample: `refuse` throws an error, `truncate`
   * keeps the first tokens, and `drop` omits the conversation.
   */
  readonly long: LongConversationRule;
}

/** Counts of the conversations that were encoded, changed or omitted. */
export interface ConversationCounts {
  /** Number of conversations that were read. */
  read: number;
  /** How many conversations were truncated to the length of a sample. */
  truncated: number;
  /** How many conversations were omitted because they are longer than a sample. */
  dropped: number;
  /**
   * How many conversations were omitted because they have no learnt token, for example because the text was
   * truncated before the first answer.
   */
  withoutAnswer: number;
  /** How many conversations have an answer that begins or ends inside a token. */
  splitTokens: number;
  /**
   * How many complete conversations have no special token among their learnt tokens. From these
   * conversations, the model does not learn to end its answers.
   */
  withoutEnd: number;
  /** How many tokens the kept conversations have. */
  tokens: number;
  /** Number of learnt tokens. */
  learnt: number;
}

/**
 * Encodes conversations as tokens, and marks the assistant's tokens.
 *
 * @throws DataError MTL_DATA_CONVERSATION, MTL_CHAT_TEMPLATE, whose messages name the conversation
 */
export async function encodeConversations(
  options: EncodeConversationsOptions,
): Promise<{ readonly encoded: readonly EncodedConversation[]; readonly counts: ConversationCounts }> {
  const { conversations, template, tokenizer } = options;
  const end = endOfTurn(template, tokenizer);
  const ends = new Set([...(tokenizer.specialIds ?? []), tokenizer.eod]);
  const encoded: EncodedConversation[] = [];
  const counts: ConversationCounts = {
    read: 0,
    truncated: 0,
    dropped: 0,
    withoutAnswer: 0,
    splitTokens: 0,
    withoutEnd: 0,
    tokens: 0,
    learnt: 0,
  };
  for await (const conversation of conversations) {
    counts.read += 1;
    const { tokens, isInSpan, splitsTokens } = tokensInSpans(
      assistantSpans({ conversation, template, endOfTurn: end?.text, unwritten: end?.unwritten }),
      tokenizer,
    );
    const count = keptTokens(tokens.length, { conversation, options, counts });
    if (count === 0) continue;
    const isLearnt = isInSpan.slice(0, count);
    // the first token is only an input and never a label, so it does not count
    const learnt = isLearnt.reduce((sum, one, index) => (index === 0 ? 0 : sum + one), 0);
    if (learnt === 0) {
      counts.withoutAnswer += 1;
      continue;
    }
    if (splitsTokens) counts.splitTokens += 1;
    if (tokens.length === count && !hasLearnt({ tokens, isLearnt }, ends)) counts.withoutEnd += 1;
    counts.tokens += count;
    counts.learnt += learnt;
    encoded.push({ tokens: Int32Array.from(tokens).slice(0, count), isLearnt });
  }
  return { encoded, counts };
}

function hasLearnt(
  { tokens, isLearnt }: { readonly tokens: ArrayLike<number>; readonly isLearnt: Uint8Array },
  sought: ReadonlySet<number>,
): boolean {
  return isLearnt.some((one, index) => one === 1 && sought.has(tokens[index]!));
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
  // the last token is only a label and never an input, so a conversation may have one token more
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

/** A conversation as tokens. */
export interface EncodedConversation {
  readonly tokens: Int32Array;
  /** A value for each token: 1 if the token is learnt, else 0. */
  readonly isLearnt: Uint8Array;
}

/**
 * Packs conversations into rows of `sequenceLength` positions. A row has only complete conversations.
 *
 * @param conversations conversations of 2 to `sequenceLength` + 1 tokens
 */
export function packConversations(
  conversations: readonly EncodedConversation[],
  sequenceLength: number,
): PackedConversations {
  const rows = packRows(
    conversations.map(({ tokens }) => tokens.length - 1),
    sequenceLength,
  );
  const offsets = sharedFloat64Array(conversations.length + 1);
  for (const [index, { tokens }] of conversations.entries())
    offsets[index + 1] = offsets[index]! + tokens.length;
  const tokens = sharedInt32Array(offsets.at(-1)!);
  const isLearnt = sharedUint8Array(offsets.at(-1)!);
  for (const [index, conversation] of conversations.entries()) {
    tokens.set(conversation.tokens, offsets[index]!);
    isLearnt.set(conversation.isLearnt, offsets[index]!);
  }
  const order = sharedInt32Array(conversations.length);
  const rowOffsets = sharedInt32Array(rows.length + 1);
  for (const [row, members] of rows.entries()) {
    order.set(members, rowOffsets[row]!);
    rowOffsets[row + 1] = rowOffsets[row]! + members.length;
  }
  return { sequenceLength, tokens, isLearnt, offsets, order, rowOffsets };
}

/**
 * Packs items into rows of equal capacity. Items are placed from the longest to the shortest, each in the
 * fullest row that has enough room (best fit). The number of rows is usually within one percent of the
 * minimum.
 *
 * @param lengths length of each item, from 1 to `capacity`
 * @returns the items of each row, by their index in `lengths`
 */
export function packRows(lengths: readonly number[], capacity: number): readonly (readonly number[])[] {
  const order = lengths.map((_, index) => index).sort((a, b) => lengths[b]! - lengths[a]! || a - b);
  const rows: number[][] = [];
  // `byRoom[n]` lists the rows with room for n more tokens
  const byRoom: number[][] = Array.from({ length: capacity + 1 }, () => []);
  for (const piece of order) {
    const length = lengths[piece]!;
    let room = length;
    while (room <= capacity && byRoom[room]!.length === 0) room += 1;
    let row = byRoom[room]?.pop();
    if (row === undefined) {
      row = rows.length;
      room = capacity;
      rows.push([]);
    }
    rows[row]!.push(piece);
    byRoom[room - length]!.push(row);
  }
  return rows;
}
