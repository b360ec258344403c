import type { ChatTemplate } from './chat-template.js';
import { type Conversation, isLearnt } from './conversation.js';
import { conversationError } from './conversation-error.js';
import type { TextSpan } from './text-span.js';

export interface AssistantSpansOptions {
  readonly conversation: Conversation;
  readonly template: ChatTemplate;
  /** The text of the special token that ends an answer: what follows it is not the assistant's. */
  readonly endOfTurn: string | undefined;
}

/** A conversation as text, and what of it the assistant learns to say. */
export interface AssistantText {
  readonly text: string;
  readonly spans: readonly TextSpan[];
}

/**
 * Where the answers that are learnt are in the text of a conversation: what the template marks with
 * `{% generation %}`, or else what an answer adds to the text of the messages before it, from the generation
 * prompt to the end of its turn.
 *
 * @throws DataError MTL_DATA_CONVERSATION where the text of the first messages is not how the text of all
 *   begins, so that an answer has no place of its own; MTL_CHAT_TEMPLATE
 */
export function assistantSpans(given: AssistantSpansOptions): AssistantText {
  const { messages, tools, where } = given.conversation;
  const template = given.template.forTools(tools);
  const options = { ...given, template };
  const { text, marked } = template.render({ messages, tools, where });
  return {
    text,
    spans: marked === undefined ? addedByAnswers(options, text) : markedAnswers(options, marked),
  };
}

/** Of what is marked, what is not given. */
function markedAnswers(
  { conversation, template }: AssistantSpansOptions,
  marked: readonly TextSpan[],
): readonly TextSpan[] {
  const { messages, numGiven, where } = conversation;
  const numAnswers = messages.filter(({ role }) => role === 'assistant').length;
  if (marked.length === 0 || (numGiven > 0 && marked.length !== numAnswers)) {
    throw conversationError(
      where,
      `${template.name} marks ${marked.length} texts as the assistant's, of ${numAnswers} messages`,
      {
        expected: '{% generation %} and {% endgeneration %} around each message of the assistant',
        remedy: 'name a template that has them, or none of them, with --chat-template FILE',
      },
    );
  }
  return marked.slice(messages.slice(0, numGiven).filter(({ role }) => role === 'assistant').length);
}

function addedByAnswers(options: AssistantSpansOptions, whole: string): readonly TextSpan[] {
  const { conversation, template, endOfTurn } = options;
  const { messages, tools, where } = conversation;
  const rendered = (count: number, addsGenerationPrompt: boolean): string =>
    count === messages.length && !addsGenerationPrompt
      ? whole
      : template.render({ messages: messages.slice(0, count), tools, addsGenerationPrompt, where }).text;
  return messages.flatMap((_, index) => {
    if (!isLearnt(conversation, index)) return [];
    const prompt = rendered(index, true);
    const through = rendered(index + 1, false);
    if (!through.startsWith(prompt)) throw noPrefix(options, { index, of: 'with its answer' });
    if (!whole.startsWith(through)) throw noPrefix(options, { index: index + 1, of: 'of all' });
    const end = endOfTurn === undefined ? -1 : through.lastIndexOf(endOfTurn);
    const isLast = end >= prompt.length && through.slice(end + endOfTurn!.length).trim() === '';
    return [{ start: prompt.length, end: isLast ? end + endOfTurn!.length : through.length }];
  });
}

function noPrefix(
  { conversation, template }: AssistantSpansOptions,
  { index, of }: { readonly index: number; readonly of: string },
) {
  return conversationError(
    conversation.where,
    `${template.name}: the text of the first ${index} messages is not how the text ${of} begins`,
    {
      expected: 'a template that renders a message the same whatever follows it',
      remedy:
        'mark what the assistant says with {% generation %} and {% endgeneration %} in a copy of the template (--chat-template FILE), or split the conversation into one line for each answer',
    },
  );
}
