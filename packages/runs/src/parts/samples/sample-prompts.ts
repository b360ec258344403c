import { contentForPeople } from '@mtl/chat-templates';
import type { SampleDataset } from '@mtl/data';
import { chatTokens, readChatTemplate, readConversations } from '@mtl/data/conversations';
import type { StageBatch } from '@mtl/models';
import type { Tokenizer } from '@mtl/tokenizers';
import { listStopTokens } from '../conversations/turn-tokens.js';

/** The number of tokens of a prompt. */
const numTokens = 16;
/** The largest distance from the start of a sample to a prompt, in tokens. */
const mostTokens = 1024;

/**
 * Regular expressions for the end of a line, for the end of a sentence, and for a capital letter at the
 * beginning of a line or sentence.
 */
const lineEnd = /\n\s*$/u;
const sentenceEnd = /[.!?…]["'”’)\]]*\s*$/u;
const capital = /^\s*\p{Lu}/u;

interface SamplePromptOptions {
  /** The held-out data or, without held-out data, the training data; undefined without any data. */
  readonly dataset: Pick<SampleDataset<StageBatch>, 'sample'> | undefined;
  readonly tokenizer: Tokenizer;
}

/**
 * Returns the tokens of a prompt from the first sample of the data. The prompt begins at the first start of a
 * document. If too few tokens follow, the prompt begins at the start of a line, or else of a sentence, or
 * else of the sample. Returns undefined if there are no usable tokens.
 */
export function samplePrompt({ dataset, tokenizer }: SamplePromptOptions): number[] | undefined {
  const tokens = dataset?.sample(0).tokens;
  if (tokens === undefined) return undefined;
  // a prompt has at most half of the model's context
  const count = Math.min(numTokens, Math.ceil(tokens.length / 2));
  let start = tokens.indexOf(tokenizer.eod) + 1;
  while (tokens[start] === tokenizer.eod) start += 1; // skips empty documents
  const isDocument = start > 0 && start + count <= tokens.length;
  const first = isDocument ? start : startInside(tokens.subarray(0, tokens.length - count), tokenizer);
  const words = tokens.subarray(first, first + count);
  const end = words.indexOf(tokenizer.eod);
  const prompt = wholeCharacters(Array.from(end < 0 ? words : words.subarray(0, end)), tokenizer);
  return prompt.length === 0 ? undefined : prompt;
}

/**
 * Returns the index of the token at which the first new line begins. If no line begins in `tokens`, returns
 * the index at which the first new sentence begins, or 0 if no sentence begins either.
 */
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

/** Removes tokens at both ends that contain only a part of a character's bytes. */
function wholeCharacters(tokens: readonly number[], tokenizer: Tokenizer): number[] {
  const decodeText = (from: number, to: number): string => tokenizer.decode(tokens.slice(from, to));
  let [start, end] = [0, tokens.length];
  while (start < end && decodeText(start, end).startsWith('\ufffd')) start += 1;
  while (start < end && decodeText(start, end).endsWith('\ufffd')) end -= 1;
  return tokens.slice(start, end);
}

interface ContinuedTokens {
  readonly prompt: readonly number[];
  readonly continuation: readonly number[];
}

/**
 * Returns the decoded prompt and continuation. Both are decoded together, because some tokenizers drop the
 * space before the first token of a text.
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

/** Matches the end of a sentence, with closing quotes and brackets. */
const sentenceEnds = /(?:[.!?…]["'”’)\]]*(?=\s|$)|[。！？][”’」』）]*)/gu;

/**
 * Shortens a text to its last complete sentence. If less than a third would remain, as in texts without
 * sentences, returns the complete text with an ellipsis.
 */
export function endAtSentence(text: string): string {
  // removes an incomplete last character, whose remaining bytes the model did not generate
  const whole = text.replace(/\uFFFD+$/u, '').trimEnd();
  const ends = [...whole.matchAll(sentenceEnds)].map((match) => match.index + match[0].length);
  const last = ends.at(-1) ?? 0;
  return 3 * last >= whole.length && whole !== '' ? whole.slice(0, last) : `${whole} ...`;
}

/** A conversation up to the model's next answer, as plain data, so that ranks can broadcast it. */
export interface ConversationPrompt {
  /** The messages, each on one line. */
  readonly text: string;
  readonly tokens: readonly number[];
  /** Tokens that end the answer. */
  readonly stopTokens: readonly number[];
}

/**
 * Returns the first conversation in the file at `path`, up to its first answer, as a prompt. Returns
 * undefined if no conversation has an answer.
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
      stopTokens: listStopTokens(template, { tokenizer }),
    };
  }
  return undefined;
}
