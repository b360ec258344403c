import type { ChatMessage } from './conversation.js';
import type { TextSpan } from './text-span.js';

export interface AnswerInWholeOptions {
  readonly messages: readonly ChatMessage[];
  /** The answer among the messages. */
  readonly index: number;
  /** The text of all messages. */
  readonly whole: string;
  readonly render: (messages: readonly ChatMessage[], addsGenerationPrompt: boolean) => string;
  /** The text of the special token that ends an answer. */
  readonly endOfTurn: string | undefined;
}

// words that no answer has, which differ in their first and last characters
const words = ['gxqvzwk', 'kwzvqxg'];
/** Characters before the header of an answer that are compared with those before its generation prompt. */
const comparedBefore = 16;

/**
 * Where an answer is in the text of a conversation whose template writes a message in another way when others
 * follow it (such as without its reasoning). What changes in the text when other words take the place of the
 * answer is the answer's content; it begins behind its generation prompt, or behind as much of it as the text
 * has there, and ends as the same answer does when it is the last one. Undefined where the text has no such
 * place, or more than one could be meant.
 */
export function answerInWhole(options: AnswerInWholeOptions): TextSpan | undefined {
  const { messages, index, whole, render } = options;
  const others = words.map((word) =>
    messages.map((one, at) => (at === index ? withContent(one, word) : one)),
  );
  const content = changed(
    whole,
    others.map((other) => render(other, false)),
  );
  if (content === undefined) return undefined;
  const start = endOfHeader(options, content.start);
  const tail = tailOf(options, others);
  if (start === undefined || tail === undefined || !whole.startsWith(tail, content.end)) return undefined;
  return { start, end: content.end + tail.length };
}

/** A message that says something else, and thinks it where it has a thought. */
function withContent(message: ChatMessage, word: string): ChatMessage {
  const thoughts = ['reasoning_content', 'reasoning', 'thinking'].filter(
    (name) => typeof message[name] === 'string' && message[name] !== '',
  );
  return { ...message, content: word, ...Object.fromEntries(thoughts.map((name) => [name, word])) };
}

/** What of a text is not in all of the others; undefined where they are the same. */
function changed(text: string, others: readonly string[]): TextSpan | undefined {
  if (others.includes(text)) return undefined;
  const start = Math.min(...others.map((other) => commonStart(text, other)));
  const rest = Math.min(...others.map((other) => commonEnd(text, other)), text.length - start);
  return { start, end: text.length - rest };
}

function commonStart(one: string, other: string): number {
  let count = 0;
  while (count < one.length && one[count] === other[count]) count += 1;
  return count;
}

function commonEnd(one: string, other: string): number {
  let count = 0;
  while (count < one.length && one.at(-1 - count) === other.at(-1 - count)) count += 1;
  return count;
}

/** Where the answer begins, whose content begins at a place. */
function endOfHeader(
  { messages, index, whole, render }: AnswerInWholeOptions,
  content: number,
): number | undefined {
  const given = messages.slice(0, index);
  const [before, prompt] = [render(given, false), render(given, true)];
  if (!prompt.startsWith(before)) return undefined;
  const header = prompt.slice(before.length);
  const compared = before.slice(-comparedBefore);
  for (let size = header.length; size > 0; size--) {
    const at = whole.lastIndexOf(header.slice(0, size), content - size);
    // a header that goes on otherwise than the prompt is one up to where it does
    const isHeader = at >= 0 && at + size <= content && (size === header.length || at + size === content);
    if (isHeader && whole.slice(0, at).endsWith(compared)) return at + size;
  }
  return undefined;
}

/** What follows the content of the answer up to the end of its turn, where the answer is the last message. */
function tailOf(
  { messages, index, render, endOfTurn }: AnswerInWholeOptions,
  others: readonly (readonly ChatMessage[])[],
): string | undefined {
  const through = render(messages.slice(0, index + 1), false);
  const content = changed(
    through,
    others.map((other) => render(other.slice(0, index + 1), false)),
  );
  return content === undefined ? undefined : upToEnd(through.slice(content.end), endOfTurn);
}

/** A text up to the token that ends a turn, where nothing but white space follows it. */
export function upToEnd(text: string, endOfTurn: string | undefined): string {
  if (endOfTurn === undefined) return text;
  const end = text.lastIndexOf(endOfTurn);
  const isLast = end >= 0 && text.slice(end + endOfTurn.length).trim() === '';
  return isLast ? text.slice(0, end + endOfTurn.length) : text;
}
