import { endOfText } from '../tokenizers/gpt2-vocabulary.js';
import type { Tokenizer } from '../tokenizers/tokenizer.js';
import type { ChatTemplate } from './chat-template.js';
import { chatTokens } from './chat-tokens.js';

/** The special token behind an answer of the assistant. */
export interface EndOfTurn {
  readonly token: number;
  readonly text: string;
}

// no template has this word
const answer = 'gxqvzwk';

/**
 * The special token by which a chat template ends an answer of the assistant, such as `<|im_end|>`; undefined
 * where it has none.
 */
export function endOfTurn(template: ChatTemplate, tokenizer: Tokenizer): EndOfTurn | undefined {
  const messages = [
    { role: 'user', content: 'a' },
    { role: 'assistant', content: answer },
  ];
  let text: string;
  try {
    ({ text } = template.render({ messages, where: 'an example' }));
  } catch {
    // a template may want more than two messages; it reports that where it is used
    return undefined;
  }
  const at = text.lastIndexOf(answer);
  const after = at < 0 ? '' : text.slice(at + answer.length).trimStart();
  const [token] = after === '' ? [] : chatTokens(tokenizer, after);
  if (token === undefined || !isSpecial(tokenizer, token)) return undefined;
  // the end of a document of a tokenizer that is built in may have no text
  const spelt = tokenizer.specialIds === undefined ? endOfText : tokenizer.decode([token]);
  return after.startsWith(spelt) ? { token, text: spelt } : undefined;
}

const isSpecial = ({ specialIds, eod }: Tokenizer, token: number): boolean =>
  specialIds?.has(token) ?? token === eod;
