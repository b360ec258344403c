import type { ChatMessage, ChatTemplate } from '@mtl/chat-templates';
import { endOfText, type Tokenizer } from '@mtl/tokenizers';
import { settingsIn } from '@mtl/tokenizers/internal';
import type { UnwrittenEnd } from './assistant-spans.js';
import { chatTokens } from './chat-tokens.js';
import { directoryOfTokenizer } from './find-chat-template.js';

/** The special token that ends an answer of the assistant. */
export interface EndOfTurn {
  readonly token: number;
  readonly text: string;
  /** The end of an answer. Given only for templates that write nothing after an answer. */
  readonly unwritten?: UnwrittenEnd;
}

// a made-up word that occurs in no template
const answer = 'gxqvzwk';

/**
 * Returns the special token with which a chat template ends an answer of the assistant, such as `<|im_end|>`.
 * For a template without such a token, returns the token that begins the user's next turn, or the end-of-text
 * token in the tokenizer's generation_config.json. Returns undefined if nothing ends an answer.
 *
 * @throws DataError MTL_DATA_TOKENIZER for a generation_config.json that cannot be read
 */
export function endOfTurn(template: ChatTemplate, tokenizer: Tokenizer): EndOfTurn | undefined {
  const after = textBehindAnswer(template);
  const written = after === undefined ? undefined : firstSpecial(after, tokenizer);
  if (after === undefined || written !== undefined) return written;
  // for example, the template writes ordinary words before the special token
  if (chatTokens(tokenizer, after).some((token) => isSpecial(tokenizer, token))) return undefined;
  const followers = ['user', 'tool'].flatMap((role) => {
    const behind = textBehindAnswer(template, { role, content: 'a' });
    const marker = behind?.startsWith(after)
      ? firstSpecial(behind.slice(after.length), tokenizer)
      : undefined;
    return marker === undefined ? [] : [{ ...marker, behind: behind!.slice(after.length) }];
  });
  const ends = generationEnds(tokenizer);
  const markers = followers.filter(({ token }) => ends === undefined || ends.includes(token));
  const [first] = markers;
  if (first !== undefined) {
    const { token, text, behind } = first;
    const appended = behind.slice(0, behind.indexOf(text) + text.length);
    return {
      token,
      text,
      unwritten: { markers: markers.map(({ token, text }) => ({ token, text })), appended },
    };
  }
  const end = ends?.find((token) => isSpecial(tokenizer, token));
  if (end === undefined) return undefined;
  const text = spelt(tokenizer, end);
  return { token: end, text, unwritten: { markers: [], appended: text } };
}

/**
 * Returns the text that a template writes after an answer, up to the next message or the end of the
 * conversation.
 */
function textBehindAnswer(template: ChatTemplate, next?: ChatMessage): string | undefined {
  const messages = [
    { role: 'user', content: 'a' },
    { role: 'assistant', content: answer },
    ...(next === undefined ? [] : [next]),
  ];
  let text: string;
  try {
    ({ text } = template.render({ messages, where: 'an example' }));
  } catch {
    // the error is ignored here, because a template may need more than two messages; if it is a real error,
    // it is reported when the template is used
    return undefined;
  }
  const at = text.lastIndexOf(answer);
  return at < 0 ? undefined : text.slice(at + answer.length);
}

/** Returns the special token at the start of `text`, after optional white space. */
function firstSpecial(text: string, tokenizer: Tokenizer): { token: number; text: string } | undefined {
  const after = text.trimStart();
  const [token] = after === '' ? [] : chatTokens(tokenizer, after);
  if (token === undefined || !isSpecial(tokenizer, token)) return undefined;
  const own = spelt(tokenizer, token);
  return after.startsWith(own) ? { token, text: own } : undefined;
}

/**
 * Returns the text of a special token. For a built-in tokenizer, whose end-of-document token has no text,
 * returns `<|endoftext|>`.
 */
const spelt = ({ specialIds, decode }: Tokenizer, token: number): string =>
  specialIds === undefined ? endOfText : decode([token]);

/**
 * Returns the end-of-text tokens in the generation_config.json next to a tokenizer; undefined if the file
 * does not exist.
 */
function generationEnds({ options }: Tokenizer): readonly number[] | undefined {
  const directory = directoryOfTokenizer(options);
  if (directory === undefined) return undefined;
  const { eos_token_id: ends } = settingsIn(directory, 'generation_config.json');
  const ids = [ends].flat().filter((id): id is number => Number.isSafeInteger(id));
  return ids.length === 0 ? undefined : ids;
}

const isSpecial = ({ specialIds, eod }: Tokenizer, token: number): boolean =>
  specialIds?.has(token) ?? token === eod;
