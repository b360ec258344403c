/** A message as its line has it: chat templates may read any of its fields. */
export interface ChatMessage {
  /** `system`, `user`, `assistant`, `tool`, or what else the chat template knows. */
  readonly role: string;
  readonly [field: string]: unknown;
}

/** A conversation to learn from. */
export interface Conversation {
  readonly messages: readonly ChatMessage[];
  /** JSON Schemas of the functions that the assistant may call. */
  readonly tools?: readonly unknown[] | undefined;
  /** Messages at the start whose answers are given, not learnt. */
  readonly numGiven: number;
  /** Where it came from, for messages: `chats.jsonl, line 3`. */
  readonly where: string;
}

/** Whether the assistant learns a message. */
export const isLearnt = ({ messages, numGiven }: Conversation, index: number): boolean =>
  index >= numGiven && messages[index]!.role === 'assistant';
