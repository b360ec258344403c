import { type ChatMessage, PythonFloat } from '@mtl/chat-templates';
import { DataError } from '@mtl/errors';

/** A conversation for training. */
export interface Conversation {
  readonly messages: readonly ChatMessage[];
  /** JSON Schemas of the functions that the assistant may call. */
  readonly tools?: readonly unknown[] | undefined;
  /** The number of messages at the start that are only context. Answers in these messages are not learnt. */
  readonly numGiven: number;
  /** The origin of the conversation, for error messages: `chats.jsonl, line 3`. */
  readonly where: string;
}

/**
 * Returns true if the assistant learns a message. The assistant does not learn messages that are only
 * context, or messages with `"weight": 0` or `"train": false`.
 */
export function isLearnt({ messages, numGiven }: Conversation, index: number): boolean {
  const { role, weight, train } = messages[index]!;
  return index >= numGiven && role === 'assistant' && convertNumber(weight) !== 0 && train !== false;
}

/** Converts Python floats and large integers (bigint) in a JSON value to plain numbers. */
export const convertNumber = (value: unknown): unknown =>
  value instanceof PythonFloat ? value.value : value;

/** Returns the error of a conversation that cannot be trained on. */
export function conversationError(
  where: string,
  what: string,
  options: { readonly expected?: string; readonly remedy?: string; readonly cause?: unknown } = {},
): DataError {
  return new DataError('MTL_DATA_CONVERSATION', `${where}: ${what}`, { ...options, details: { where } });
}
