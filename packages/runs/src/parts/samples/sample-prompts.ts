import { contentForPeople } from '@mtl/chat-templates';
import type { SampleDataset } from '@mtl/data';
import { chatTokens, readChatTemplate, readConversations } from '@mtl/data/conversations';
import type { StageBatch } from '@mtl/models';
import type { Tokenizer } from '@mtl/tokenizers';
import { stopTokensOf } from '../conversations/turn-tokens.js';

/** Tokens of a prompt. */
const numTokens = 16;
/** A place further from the start of a sample is not looked for. */
const mostTokens = 1024;

/** Behind a line, and behind a sentence: there a capital letter begins another. */
const lineEnd = /\n\s*$/u;
const sentenceEnd = /[.!?…]["'”’)\]]*\s*$/u;
const capital = /^\s*\p{Lu}/u;

interface SamplePromptOptions {
  /** Held-out data if there are any, else what was trained on; undefined where there are none. */
  readonly dataset: Pick<SampleDataset<StageBatch>, 'sample'> | undefined;
  readonly tokenizer: Tokenizer;
}

/**
 * Returns the tokens that a sample of a trained model begins with, from the first sample of the data: the
 * start of a document, else of a line or a sentence, else of the sample, whichever leaves room for a prompt.
 * Undefined where there is nothing to take.
 */
export function samplePrompt({ dataset, tokenizer }: SamplePromptOptions): number[] | undefined {
  const tokens = dataset?.sample(0).tokens;
  if (tokens === undefined) return undefined;
  // no more than half of what the model can see
  const count = Math.min(numTokens, Math.ceil(tokens.length / 2));
  let start = tokens.indexOf(tokenizer.eod) + 1;
  while (tokens[start] === tokenizer.eod) start += 1; // documents without text
  const isDocument = start > 0 && start + count <= tokens.length;
  const first = isDocument ? start : startInside(tokens.subarray(0, tokens.length - count), tokenizer);
  const words = tokens.subarray(first, first + count);
  const end = words.indexOf(tokenizer.eod);
  const prompt = wholeCharacters(Array.from(end < 0 ? words : words.subarray(0, end)), tokenizer);
  return prompt.length === 0 ? undefined : prompt;
}

/** Returns the index at which a line or else a sentence begins; 0 where none does. */
function startInside(tokens: Int32Array, tokenizer: Tokenizer): number {
  let before = '';
  let sentence = 0;
  for (let index = 0; index < Math.min(tokens.length, mostTokens); index++) {
    const text = tokenizer.decode(tokens.subarray(index, index + 1));
    if (text.trim() !== '') {
      if (lineEnd.test(before)) return index;
      if (sentence === 0 && sentenceEnd.test(before) && capital.test(text)) sentence = index;
    }
    before = (before + text).slice(-8);
  }
  return sentence;
}

/** Returns the tokens without what is left of characters whose other bytes are in tokens outside. */
function wholeCharacters(tokens: readonly number[], tokenizer: Tokenizer): number[] {
  const textOf = (from: number, to: number): string => tokenizer.decode(tokens.slice(from, to));
  let [start, end] = [0, tokens.length];
  while (start < end && textOf(start, end).startsWith('\ufffd')) start += 1;
  while (start < end && textOf(start, end).endsWith('\ufffd')) end -= 1;
  return tokens.slice(start, end);
}

interface ContinuedTokens {
  readonly prompt: readonly number[];
  readonly continuation: readonly number[];
}

/**
 * Returns the text of a prompt and of what a model wrote behind it. Tokens are decoded together, as some
 * tokenizers decode the first one of a text without the space before it.
 */
export function splitContinuation(
  tokenizer: Pick<Tokenizer, 'decode'>,
  { prompt: tokens, continuation }: ContinuedTokens,
): { readonly prompt: string; readonly completion: string } {
  const prompt = tokenizer.decode(tokens);
  const whole = tokenizer.decode([...tokens, ...continuation]);
  const completion = whole.startsWith(prompt) ? whole.slice(prompt.length) : tokenizer.decode(continuation);
  return { prompt, completion };
}

/** The end of a sentence, with the quotes and brackets that close behind it. */
const sentenceEnds = /(?:[.!?…]["'”’)\]]*(?=\s|$)|[。！？][”’」』）]*)/gu;

/**
 * Returns a text that was cut off somewhere, up to its last whole sentence; with an ellipsis where that would
 * leave less than a third of it, as in texts that have no sentences.
 */
export function endAtSentence(text: string): string {
  // removes the rest of a character whose other bytes were not generated
  const whole = text.replace(/\uFFFD+$/u, '').trimEnd();
  const ends = [...whole.matchAll(sentenceEnds)].map((match) => match.index + match[0].length);
  const last = ends.at(-1) ?? 0;
  return 3 * last >= whole.length && whole !== '' ? whole.slice(0, last) : `${whole} ...`;
}

/** A conversation up to where the model goes on. Plain data, which ranks broadcast. */
export interface ConversationPrompt {
  /** The messages, a line each. */
  readonly text: string;
  readonly tokens: readonly number[];
  /** Tokens that end the answer. */
  readonly stopTokens: readonly number[];
}

/**
 * Returns the first conversation of a file up to its first answer, as a prompt; undefined where none has any.
 */
export async function sampleConversation(
  path: string,
  tokenizer: Tokenizer,
): Promise<ConversationPrompt | undefined> {
  const template = readChatTemplate(tokenizer);
  for await (const { messages: all, tools, where } of readConversations(path)) {
    const messages = all.slice(
      0,
      all.findIndex(({ role }) => role === 'assistant'),
    );
    if (messages.length === 0) continue;
    const { text } = template.render({ messages, tools, addsGenerationPrompt: true, where });
    return {
      text: messages.map(({ role, content }) => `${role}: ${contentForPeople(content)}`).join('\n'),
      tokens: Array.from(chatTokens(tokenizer, text)),
      stopTokens: stopTokensOf(template, { tokenizer }),
    };
  }
  return undefined;
}
