import type { ChatMessage, ChatTemplate, TextSpan } from '@mtl/chat-templates';
import { type Conversation, conversationError, isLearnt } from './conversation.js';

/**
 * The end of an answer, for templates that write nothing after the answer. The end is then the first token of
 * the next turn, or no token.
 */
export interface UnwrittenEnd {
  /** Special tokens that begin the next turn, and thus end the answer before them. */
  readonly markers: readonly { readonly token: number; readonly text: string }[];
  /** Text that is appended to an answer if it is the last message, because no next turn ends the answer. */
  readonly appended: string;
}

interface AssistantSpansOptions {
  readonly conversation: Conversation;
  readonly template: ChatTemplate;
  /** The text of the special token that ends an answer. Text after it does not belong to the assistant. */
  readonly endOfTurn: string | undefined;
  /** The end of an answer. Given only for templates that write nothing after an answer. */
  readonly unwritten?: UnwrittenEnd | undefined;
}

/** A conversation as text, and the spans that the assistant learns. */
export interface AssistantText {
  readonly text: string;
  readonly spans: readonly TextSpan[];
}

/**
 * Finds the spans of learnt answers in the text of a conversation. If the template marks answers with `{%
 * generation %}`, these marks are the spans. Otherwise, an answer is the text that its message adds to the
 * text of the earlier messages, from the generation prompt to the end of the turn. If later messages change
 * the text of earlier messages, the answer is searched for in the text of the whole conversation.
 *
 * @throws DataError MTL_DATA_CONVERSATION if the text of an answer cannot be located, for example because the
 *   template omits it; MTL_CHAT_TEMPLATE
 */
export function assistantSpans(given: AssistantSpansOptions): AssistantText {
  const { messages, tools, where } = given.conversation;
  const template = given.template.forTools(tools);
  const options = { ...given, template };
  const { text, marked } = template.render({ messages, tools, where });
  if (marked !== undefined) return { text, spans: markedAnswers(options, marked) };
  return withEnds({ text, spans: addedByAnswers(options, text) }, options);
}

/**
 * Extends each answer by the marker of the next turn, because this marker ends the answer. If the last
 * message is an answer, appends `unwritten.appended` to it.
 */
function withEnds(
  found: AssistantText,
  { conversation, unwritten }: Pick<AssistantSpansOptions, 'conversation' | 'unwritten'>,
): AssistantText {
  if (unwritten === undefined) return found;
  const { text, spans } = found;
  const isLast = isLearnt(conversation, conversation.messages.length - 1);
  const ended = spans.map(({ start, end }, index) => {
    if (isLast && index === spans.length - 1) return { start, end: text.length + unwritten.appended.length };
    const next = text.slice(end).trimStart();
    const marker = unwritten.markers.find((one) => next.startsWith(one.text));
    return { start, end: marker === undefined ? end : text.length - next.length + marker.text.length };
  });
  return { text: isLast ? text + unwritten.appended : text, spans: ended };
}

/** Returns the spans that the template marks as answers, except answers that are only context. */
function markedAnswers(
  { conversation, template }: AssistantSpansOptions,
  marked: readonly TextSpan[],
): readonly TextSpan[] {
  const { messages, where } = conversation;
  const answers = [...messages.keys()].filter((index) => messages[index]!.role === 'assistant');
  const numAnswers = answers.length;
  const learnsAll = answers.every((index) => isLearnt(conversation, index));
  if (marked.length === 0 || (!learnsAll && marked.length !== numAnswers)) {
    throw conversationError(
      where,
      `${template.name} marks ${marked.length} texts as the assistant's, of ${numAnswers} messages`,
      {
        expected: '{% generation %} and {% endgeneration %} around each message of the assistant',
        remedy: 'name a template that has all marks, or none, with --chat-template FILE',
      },
    );
  }
  return learnsAll ? marked : marked.filter((_, index) => isLearnt(conversation, answers[index]!));
}

function addedByAnswers(options: AssistantSpansOptions, whole: string): readonly TextSpan[] {
  const { conversation, template, endOfTurn } = options;
  const { messages, tools, where } = conversation;
  const render = (some: readonly ChatMessage[], addsGenerationPrompt: boolean): string =>
    some === messages && !addsGenerationPrompt
      ? whole
      : template.render({ messages: some, tools, addsGenerationPrompt, where }).text;
  const spans: TextSpan[] = [];
  for (const index of messages.keys()) {
    if (!isLearnt(conversation, index)) continue;
    const prompt = render(messages.slice(0, index), true);
    const through = index === messages.length - 1 ? whole : render(messages.slice(0, index + 1), false);
    const isBehindPrompt = through.startsWith(prompt);
    const span =
      isBehindPrompt && whole.startsWith(through)
        ? {
            start: prompt.length,
            end: prompt.length + upToEnd(through.slice(prompt.length), endOfTurn).length,
          }
        : answerInWhole({ messages, index, whole, render, endOfTurn });
    if (span !== undefined && span.start >= (spans.at(-1)?.end ?? 0)) spans.push(span);
    else if (isBehindPrompt) throw noPrefix(options, { index: index + 1, of: 'of all' });
    else throw noPrefix(options, { index, of: 'with its answer' });
  }
  return spans;
}

function noPrefix(
  { conversation, template }: AssistantSpansOptions,
  { index, of }: { readonly index: number; readonly of: string },
) {
  return conversationError(
    conversation.where,
    `${template.name}: the text of the first ${index} messages is not how the text ${of} begins`,
    {
      expected: 'a template that writes each answer behind its generation prompt, whatever follows it',
      remedy:
        'mark what the assistant says with {% generation %} and {% endgeneration %} in a copy of the template (--chat-template FILE), or split the conversation into one line for each answer',
    },
  );
}

interface AnswerInWholeOptions {
  readonly messages: readonly ChatMessage[];
  /** The index of the answer among the messages. */
  readonly index: number;
  /** The text of the whole conversation. */
  readonly whole: string;
  readonly render: (messages: readonly ChatMessage[], addsGenerationPrompt: boolean) => string;
  /** The text of the special token that ends an answer. */
  readonly endOfTurn: string | undefined;
}

// made-up words that occur in no answer; their first characters differ, and so do their last characters
const words = ['gxqvzwk', 'kwzvqxg'];
/** How many characters are compared before an answer's header, and before its generation prompt. */
const comparedBefore = 16;

/**
 * Finds an answer in the text of a conversation, for a template that changes earlier messages when further
 * messages follow (for example, by omitting their reasoning). To find the answer, its content is replaced by
 * made-up words: the text then changes only at the answer. The answer begins after its generation prompt, or
 * after the part of the prompt that the text contains. It ends with the text that would follow the content if
 * the answer were the last message. Returns undefined unless the text has exactly one such span.
 */
function answerInWhole(options: AnswerInWholeOptions): TextSpan | undefined {
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
  const tail = findTail(options, others);
  if (start === undefined || tail === undefined || !whole.startsWith(tail, content.end)) return undefined;
  return { start, end: content.end + tail.length };
}

/** Returns the message with its content replaced by `word`. Its reasoning, if any, is also replaced. */
function withContent(message: ChatMessage, word: string): ChatMessage {
  const thoughts = ['reasoning_content', 'reasoning', 'thinking'].filter(
    (name) => typeof message[name] === 'string' && message[name] !== '',
  );
  return { ...message, content: word, ...Object.fromEntries(thoughts.map((name) => [name, word])) };
}

/** Returns the span in which `text` differs from all `others`; undefined if `others` contains `text`. */
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

/**
 * Returns the position at which the answer starts, where its header ends. `content` is the position of the
 * answer's content.
 */
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
    // of the header, only the part that equals the start of the generation prompt counts
    const isHeader = at >= 0 && at + size <= content && (size === header.length || at + size === content);
    if (isHeader && whole.slice(0, at).endsWith(compared)) return at + size;
  }
  return undefined;
}

/**
 * Returns the text after the content of the answer, up to the end of its turn, as if the answer were the last
 * message.
 */
function findTail(
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

/**
 * Returns `text` up to and including the token that ends a turn, if only white space follows the token;
 * otherwise the whole text.
 */
function upToEnd(text: string, endOfTurn: string | undefined): string {
  if (endOfTurn === undefined) return text;
  const end = text.lastIndexOf(endOfTurn);
  const isLast = end >= 0 && text.slice(end + endOfTurn.length).trim() === '';
  return isLast ? text.slice(0, end + endOfTurn.length) : text;
}
