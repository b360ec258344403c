import { answerInWhole, upToEnd } from './answer-in-whole.js';
import type { ChatTemplate } from './chat-template.js';
import { type ChatMessage, type Conversation, isLearnt } from './conversation.js';
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
 * prompt to the end of its turn. Where a template writes it otherwise when others follow, it is looked for in
 * the text of all.
 *
 * @throws DataError MTL_DATA_CONVERSATION where an answer has no place of its own in the text, such as one
 *   that the template leaves out; MTL_CHAT_TEMPLATE
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
        remedy: 'name a template that has them, or none of them, with --chat-template FILE',
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
