import { Template } from '@huggingface/jinja';
import { DataError } from '@mtl/errors';
import type { ChatMessage } from './conversation.js';
import type { TextSpan } from './text-span.js';

export interface ChatTemplateOptions {
  /** In Jinja, as the transformers library reads it: `trim_blocks` and `lstrip_blocks` are on. */
  readonly text: string;
  /** For messages: the file that it came from. */
  readonly name: string;
  /** What templates call `bos_token`, `eos_token` and so on. */
  readonly specialTokens?: Readonly<Record<string, string>> | undefined;
  /** Renders conversations that have functions (`tools`) in place of this one. */
  readonly toolUse?: ChatTemplate | undefined;
}

export interface RenderOptions {
  readonly messages: readonly ChatMessage[];
  readonly tools?: readonly unknown[] | undefined;
  /** Whether the text ends where an answer of the assistant begins. Default: false. */
  readonly addsGenerationPrompt?: boolean;
  /** What is rendered, for messages: `chats.jsonl, line 3`. */
  readonly where: string;
}

/** A conversation as text. */
export interface RenderedConversation {
  readonly text: string;
  /** What the template marks as the assistant's, in order; undefined where it marks nothing. */
  readonly marked: readonly TextSpan[] | undefined;
}

const generationTag = /\{%(-?)\s*(end)?generation\s*(-?)%\}/g;
// of private use, so that texts hardly have them; noncharacters would do as well
const startMark = '\uE0F0';
const endMark = '\uE0F1';

/**
 * The chat template of a tokenizer: how a conversation becomes a text. Where it marks what the assistant says
 * (`{% generation %}` ... `{% endgeneration %}`), rendering tells where that is.
 */
export class ChatTemplate {
  readonly name: string;
  readonly text: string;
  readonly #template: Template;
  readonly #marks: boolean;
  readonly #specialTokens: Readonly<Record<string, string>>;
  readonly #toolUse: ChatTemplate | undefined;

  /** @throws DataError MTL_CHAT_TEMPLATE for what is not Jinja, or not the part of it that templates use */
  constructor({ text, name, specialTokens = {}, toolUse }: ChatTemplateOptions) {
    this.name = name;
    this.#toolUse = toolUse;
    this.text = text;
    this.#specialTokens = specialTokens;
    // a mark takes the place of the tag, with the white space around it trimmed as by the tag
    const marking = text.replace(
      generationTag,
      (_, before: string, end: string | undefined, after: string) =>
        `{%${before} if true %}${end === undefined ? startMark : endMark}{% endif ${after}%}`,
    );
    this.#marks = marking !== text;
    try {
      this.#template = new Template(marking);
    } catch (cause) {
      throw templateError(`${name}: ${(cause as Error).message}`, {
        expected: 'a chat template in Jinja',
        remedy: 'repair it, or name another one with --chat-template FILE',
        cause,
      });
    }
  }

  /** The template that renders a conversation with these functions: this one, or the one for functions. */
  forTools(tools: readonly unknown[] | undefined): ChatTemplate {
    return (tools === undefined ? undefined : this.#toolUse) ?? this;
  }

  /** @throws DataError MTL_CHAT_TEMPLATE where the template refuses the conversation, with its own words */
  render(options: RenderOptions): RenderedConversation {
    return this.forTools(options.tools).#renderAll(options);
  }

  #renderAll({ messages, tools, addsGenerationPrompt = false, where }: RenderOptions): RenderedConversation {
    if (this.#marks) refuseMarks({ messages, tools }, where);
    let text: string;
    try {
      text = this.#template.render({
        ...this.#specialTokens,
        messages,
        tools: tools ?? null,
        documents: null,
        add_generation_prompt: addsGenerationPrompt,
      });
    } catch (cause) {
      throw templateError(`${where}: ${this.name} refuses it: ${(cause as Error).message}`, {
        remedy: 'change or remove the conversation, or name another template with --chat-template FILE',
        cause,
      });
    }
    return this.#marks ? withoutMarks(text, `${where}: ${this.name}`) : { text, marked: undefined };
  }
}

function withoutMarks(marked: string, what: string): RenderedConversation {
  const parts = marked.split(/([\uE0F0\uE0F1])/);
  const spans: TextSpan[] = [];
  let text = '';
  let start: number | undefined;
  for (const part of parts) {
    if (part === startMark && start === undefined) start = text.length;
    else if (part === endMark && start !== undefined) {
      spans.push({ start, end: text.length });
      start = undefined;
    } else if (part === startMark || part === endMark) throw unmatched(what);
    else text += part;
  }
  if (start !== undefined) throw unmatched(what);
  return { text, marked: spans };
}

const unmatched = (what: string): DataError =>
  templateError(`${what}: {% generation %} and {% endgeneration %} do not match`, {
    expected: 'one of each around what the assistant says',
  });

function refuseMarks(conversation: object, where: string): void {
  const text = JSON.stringify(conversation);
  const mark = [startMark, endMark].find((one) => text.includes(one));
  if (mark === undefined) return;
  throw templateError(`${where}: has the character U+${mark.charCodeAt(0).toString(16).toUpperCase()}`, {
    expected: 'texts without it: it marks what the assistant says',
    remedy: 'remove it: it is of private use and has no meaning of its own',
  });
}

function templateError(
  message: string,
  options: { readonly expected?: string; readonly remedy?: string; readonly cause?: unknown },
): DataError {
  return new DataError('MTL_CHAT_TEMPLATE', message, options);
}
