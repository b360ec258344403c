/**
 * A message with all the fields that the conversation file gives it, because chat templates may read any
 * field. `readConversations` describes the values of the fields.
 */
export interface ChatMessage {
  /** `system`, `user`, `assistant`, `tool`, or another role of the chat template. */
  readonly role: string;
  readonly [field: string]: unknown;
}

/**
 * Returns the text of one entry of a message's content; undefined for images and other entries that are not
 * text.
 */
function textOfPart(part: unknown): string | undefined {
  if (typeof part !== 'object' || part === null) return undefined;
  const { type, text } = (part instanceof Map ? Object.fromEntries(part) : part) as Record<string, unknown>;
  return type === 'text' && typeof text === 'string' ? text : undefined;
}

/** Returns the texts of all contents that are lists of parts; undefined if no content is a list. */
export function textParts(messages: readonly ChatMessage[]): readonly string[] | undefined {
  const lists = messages.flatMap(({ content }) => (Array.isArray(content) ? [content as unknown[]] : []));
  if (lists.length === 0) return undefined;
  return lists.flat().flatMap((part) => textOfPart(part) ?? []);
}

/**
 * Returns the messages, with each list of texts joined into one string. Returns undefined if a list has parts
 * that are not text.
 */
export function withJoinedTexts(messages: readonly ChatMessage[]): readonly ChatMessage[] | undefined {
  const joined: ChatMessage[] = [];
  for (const message of messages) {
    const { content } = message;
    const texts = Array.isArray(content) ? content.map(textOfPart) : undefined;
    if (texts?.includes(undefined)) return undefined;
    joined.push(texts === undefined ? message : { ...message, content: texts.join('') });
  }
  return joined;
}

/**
 * Returns a message's content as a string for people to read: the entries that are text, and only the kind of
 * all other entries.
 */
export function contentForPeople(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content
    .map((part) => {
      const type: unknown =
        part instanceof Map ? part.get('type') : (part as { type?: unknown } | null)?.type;
      return textOfPart(part) ?? `[${String(type)}]`;
    })
    .join('');
}
