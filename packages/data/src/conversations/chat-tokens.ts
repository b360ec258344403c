import type { Tokenizer } from '@mtl/tokenizers';
import { endOfText } from '@mtl/tokenizers/internal';
import type { AssistantText } from './assistant-spans.js';

/**
 * Returns the ids of a rendered conversation. Text that spells a special token becomes that token. Built-in
 * tokenizers treat all text as plain; in conversations, `<|endoftext|>` becomes their end-of-document token
 * too.
 */
export function chatTokens(tokenizer: Tokenizer, text: string): Int32Array | number[] {
  if (tokenizer.specialIds !== undefined || !text.includes(endOfText)) return tokenizer.encode(text);
  return text
    .split(endOfText)
    .flatMap((part, index) => [...(index === 0 ? [] : [tokenizer.eod]), ...tokenizer.encode(part)]);
}

/** A text as tokens, with the tokens of its spans marked. */
interface TokensInSpans {
  readonly tokens: ArrayLike<number>;
  /** 1 for each token in a span, else 0. */
  readonly isInSpan: Uint8Array;
  /** True if some span begins or ends inside a token; such a token counts as part of the span. */
  readonly splitsTokens: boolean;
}

/**
 * Encodes a whole text, so that its tokens are the same as in any other use, and finds the tokens of its
 * spans, which are in order and do not overlap.
 */
export function tokensInSpans({ text, spans }: AssistantText, tokenizer: Tokenizer): TokensInSpans {
  const tokens = chatTokens(tokenizer, text);
  const ends = spans.flatMap(({ start, end }) => [start, end]);
  const counts = countsByPieces({ text, ends, tokens, tokenizer }) ?? [];
  const places = ends.map((end, index) => {
    const count = counts[index];
    if (count !== undefined) return whole(count);
    const [before, after] = [text.slice(0, end), text.slice(end)].map((part) => chatTokens(tokenizer, part));
    return findPlace(tokens, { before: before!, after: after! });
  });
  const isInSpan = new Uint8Array(tokens.length);
  for (let span = 0; span < spans.length; span++) {
    const [start, end] = [places[2 * span]!, places[2 * span + 1]!];
    isInSpan.fill(1, start.count, end.through);
  }
  return { tokens, isInSpan, splitsTokens: places.some(({ count, through }) => count < through) };
}

/** The position of a character among the tokens of the whole text. */
interface Place {
  /** Number of tokens that end before the character. */
  readonly count: number;
  /** Number of tokens up to the character, including a token that the position splits. */
  readonly through: number;
}

const whole = (count: number): Place => ({ count, through: count });

/**
 * Returns the number of tokens from the start of the text up to each of `ends`. It encodes the pieces between
 * the ends, which is cheaper than encoding each prefix. The pieces usually give the tokens of the whole text,
 * since special tokens are at the ends of messages; otherwise it returns undefined.
 */
function countsByPieces(options: {
  readonly text: string;
  readonly ends: readonly number[];
  readonly tokens: ArrayLike<number>;
  readonly tokenizer: Tokenizer;
}): readonly number[] | undefined {
  const { text, ends, tokens, tokenizer } = options;
  const counts: number[] = [];
  let count = 0;
  for (const [index, end] of [...ends, text.length].entries()) {
    const piece = chatTokens(tokenizer, text.slice(ends[index - 1] ?? 0, end));
    for (let i = 0; i < piece.length; i++) if (piece[i] !== tokens[count + i]) return undefined;
    count += piece.length;
    counts.push(count);
  }
  return count === tokens.length ? counts : undefined;
}

/**
 * Returns the position in the tokens of the joined text at which `before` ends and `after` begins. If the
 * tokens of one part are unchanged in the joined text, the position is at that part's boundary; otherwise it
 * is in the range of tokens that belong to neither part.
 */
function findPlace(
  all: ArrayLike<number>,
  parts: { readonly before: ArrayLike<number>; readonly after: ArrayLike<number> },
): Place {
  const { before, after } = parts;
  let count = 0;
  while (count < before.length && before[count] === all[count]) count += 1;
  if (count === before.length) return whole(count);
  let rest = 0;
  while (rest < after.length && after[after.length - 1 - rest] === all[all.length - 1 - rest]) rest += 1;
  if (rest === after.length) return whole(all.length - rest);
  return { count, through: Math.max(count + 1, all.length - rest) };
}
