import { DataError } from '@mtl/errors';
import { Template } from './jinja/renderer.js';
import { RaisedError, TemplateError } from './jinja/runtime.js';
import { Dict, isList, toValue, type Value } from './jinja/values.js';
import { type ChatMessage, textParts, withJoinedTexts } from './message.js';
import { probeArguments, quotedProbes, replaceTextArguments, type TextArguments } from './tool-arguments.js';

interface ChatTemplateOptions {
  /**
   * The Jinja source of the template. It is read with the settings of the transformers library, `trim_blocks`
   * and `lstrip_blocks`.
   */
  readonly text: string;
  /** The name of the template in messages: the path of the file from which the template was read. */
  readonly name: string;
  /** Texts of `bos_token`, `eos_token` and so on. */
  readonly specialTokens?: Readonly<Record<string, string>> | undefined;
  /** The template that is used in place of this template if a conversation has functions (`tools`). */
  readonly toolUse?: ChatTemplate | undefined;
}

interface RenderOptions {
  /**
   * The messages. Their fields and `tools` may have any JSON values: maps if the order of keys matters,
   * bigints for large integers, and `PythonFloat` for whole floats.
   */
  readonly messages: readonly ChatMessage[];
  readonly tools?: readonly unknown[] | undefined;
  /** True if the rendered text must end with the beginning of the assistant's next answer. Default: false. */
  readonly addsGenerationPrompt?: boolean;
  /** The place of the conversation, for error messages: `chats.jsonl, line 3`. */
  readonly where: string;
}

/** The text of a conversation. */
export interface RenderedConversation {
  readonly text: string;
  /**
   * The spans of the assistant's text that the template marks, in order; undefined if the template marks
   * none.
   */
  readonly marked: readonly TextSpan[] | undefined;
}

// private-use characters of Unicode, which hardly any text contains
const startMark = '\uE0F0';
const endMark = '\uE0F1';

/**
 * The chat template of a tokenizer, which renders a conversation as a string. Rendering also returns the
 * assistant's text, as spans, if the template marks it (`{% generation %}` ... `{% endgeneration %}`).
 */
export class ChatTemplate {
  readonly name: string;
  readonly text: string;
  readonly #template: Template;
  readonly #specialTokens: Readonly<Record<string, string>>;
  readonly #toolUse: ChatTemplate | undefined;

  /** @throws DataError MTL_CHAT_TEMPLATE if `text` is not valid Jinja or includes other templates */
  constructor({ text, name, specialTokens = {}, toolUse }: ChatTemplateOptions) {
    this.name = name;
    this.#toolUse = toolUse;
    this.text = text;
    this.#specialTokens = specialTokens;
    try {
      this.#template = new Template(text);
    } catch (cause) {
      if (!(cause instanceof TemplateError)) throw cause;
      throw templateError(`${name}, line ${cause.line}: ${cause.message}`, {
        expected: 'a chat template in Jinja',
        remedy: 'repair it, or take another template (--chat-template FILE of the command line)',
        cause,
      });
    }
  }

  /**
   * Returns the template for conversations that use functions: this template, or the separate template for
   * functions if the model has one.
   */
  forTools(tools: readonly unknown[] | undefined): ChatTemplate {
    return (tools === undefined ? undefined : this.#toolUse) ?? this;
  }

  /**
   * Renders a conversation. The content of a message may be a list of texts (`[{"type": "text", "text":
   * ...}]`). If the template does not support lists, the texts are joined.
   * @throws DataError MTL_CHAT_TEMPLATE if the template refuses the conversation (the error contains the
   *   template's message), or if rendering uses more resources than a conversation can need
   */
  render(options: RenderOptions): RenderedConversation {
    return this.forTools(options.tools).#renderAll(options);
  }

  #renderAll(options: RenderOptions): RenderedConversation {
    const text = this.#renderText(options);
    return this.#template.hasGeneration
      ? withoutMarks(text, `${options.where}: ${this.name}`)
      : { text, marked: undefined };
  }

  /**
   * Renders a conversation. The arguments of a function call may be a JSON string. If the template writes the
   * string in quotes or fails with it, the template expects an object. The string is then replaced by the
   * parsed object.
   */
  #renderText(options: RenderOptions): string {
    const probes = replaceTextArguments(options.messages, ({ index }) => probeArguments(index));
    if (probes === undefined) return this.#textOfParts(options);
    const withObjects = (takesObject: (index: number) => boolean): string => {
      const replace = ({ text, value, index }: TextArguments) => (takesObject(index) ? value : text);
      return this.#textOfParts({
        ...options,
        messages: replaceTextArguments(options.messages, replace)!,
      });
    };
    const quoted = this.#quotedArguments({ ...options, messages: probes });
    if (quoted.size > 0) return withObjects((index) => quoted.has(index));
    try {
      return this.#textOfParts(options);
    } catch (cause) {
      try {
        return withObjects(() => true);
      } catch {
        throw cause;
      }
    }
  }

  /**
   * Renders messages with probes in place of arguments, and returns the indices of the probes that the
   * template writes in quotes. The real arguments are not used for this test, because a message may contain
   * the same string in quotes.
   */
  #quotedArguments(probed: RenderOptions): ReadonlySet<number> {
    try {
      return quotedProbes(this.#textOfParts(probed));
    } catch {
      // the template rejects arguments that are strings; `#renderText` then tries the real arguments
      return new Set();
    }
  }

  #textOfParts(options: RenderOptions): string {
    const { messages } = options;
    const parts = textParts(messages);
    if (parts === undefined) return this.#rendered(options);
    const joined = withJoinedTexts(messages);
    let text: string;
    try {
      text = this.#rendered(options);
    } catch (cause) {
      if (joined === undefined) throw cause;
      return this.#rendered({ ...options, messages: joined });
    }
    // A template may ignore a list without an error, so the rendered text must contain all parts.
    if (parts.every((part) => text.includes(part.trim()))) return text;
    if (joined !== undefined) return this.#rendered({ ...options, messages: joined });
    throw templateError(`${options.where}: ${this.name} leaves out contents that are lists of parts`, {
      expected: 'a template that takes them, or contents that are texts',
      remedy: 'put the text of each message into one text as its content',
    });
  }

  #rendered({ messages, tools, addsGenerationPrompt = false, where }: RenderOptions): string {
    const given = { messages: toValue(messages), tools: toValue(tools) };
    if (this.#template.hasGeneration) refuseMarks([given.messages, given.tools], where);
    const contents = contentParts(given.messages);
    try {
      return this.#template.render({
        context: new Map<string, Value>([
          ...Object.entries(this.#specialTokens),
          ...Object.entries(given),
          ['documents', null],
          ['add_generation_prompt', addsGenerationPrompt],
        ]),
        hasNoText: (value) => contents.has(value),
        marks: { start: startMark, end: endMark },
      });
    } catch (cause) {
      if (!(cause instanceof TemplateError)) throw cause;
      const place = cause instanceof RaisedError ? '' : ` in its line ${cause.line}`;
      throw templateError(`${where}: ${this.name} refuses it${place}: ${cause.message}`, {
        remedy:
          'change or remove the conversation, or take another template (--chat-template FILE of the command line)',
        cause,
      });
    }
  }
}

/** Returns the messages' contents that are lists, and the parts in these lists. */
function contentParts(messages: Value): ReadonlySet<object> {
  const contents = (messages as readonly Value[]).flatMap((message) => {
    const content = message instanceof Dict ? message.get('content') : undefined;
    return content !== undefined && isList(content) ? [content] : [];
  });
  return new Set([...contents, ...contents.flat()].filter((one) => typeof one === 'object' && one !== null));
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
    } else if (part === startMark || part === endMark) {
      throw templateError(`${what}: {% generation %} and {% endgeneration %} do not match`, {
        expected: 'not nested, and not in a truncated text',
      });
    } else text += part;
  }
  return { text, marked: spans };
}

function refuseMarks(values: readonly Value[], where: string): void {
  for (const value of values) {
    const mark = [startMark, endMark].find((one) => hasText(value, one));
    if (mark === undefined) continue;
    throw templateError(`${where}: has the character U+${mark.charCodeAt(0).toString(16).toUpperCase()}`, {
      expected: 'texts without it: it marks what the assistant says',
      remedy: 'remove it: it is of private use and has no meaning of its own',
    });
  }
}

function hasText(value: Value, sought: string): boolean {
  if (typeof value === 'string') return value.includes(sought);
  if (isList(value)) return value.some((item) => hasText(item, sought));
  return (
    value instanceof Dict &&
    value.entries().some(([key, item]) => hasText(key, sought) || hasText(item, sought))
  );
}

function templateError(
  message: string,
  options: { readonly expected?: string; readonly remedy?: string; readonly cause?: unknown },
): DataError {
  return new DataError('MTL_CHAT_TEMPLATE', message, options);
}

/**
 * A range of characters (UTF-16 units) in a text. `start` is the first character; `end` is the character
 * after the last.
 */
export interface TextSpan {
  readonly start: number;
  readonly end: number;
}
