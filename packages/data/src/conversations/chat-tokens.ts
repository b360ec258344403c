import { endOfText, type Tokenizer } from '@mtl/tokenizers';
import type { AssistantText } from './assistant-spans.js';

/**
 * Returns the token ids of a rendered conversation. Text that spells a special token becomes this token.
 * Built-in tokenizers have no special tokens in text, except that `<|endoftext|>` in a conversation becomes
 * the end-of-document token.
 */
export function chatTokens(tokenizer: Tokenizer, text: string): Int32Array | number[] {
  if (tokenizer.specialIds !== undefined || !text.includes(endOfText)) return tokenizer.encode(text);
  return text
    .split(endOfText)
    .flatMap((part, index) => [...(index === 0 ? [] : [tokenizer.eod]), ...tokenizer.encode(part)]);
}

/** The tokens of a text, and a mark for each token that is in a span. */
interface TokensInSpans {
  readonly tokens: ArrayLike<number>;
  /** 1 for each token in a span, else 0. */
  readonly isInSpan: Uint8Array;
  /** True if some span begins or ends inside a token; such a token counts as part of the span. */
  readonly splitsTokens: boolean;
}

/**
 * Encodes a text and finds the tokens of its spans. The text is encoded as a whole, so that its tokens do not
 * depend on the spans. The spans must be in order and must not overlap.
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

/** A position between two characters, expressed as positions in the tokens of the whole text. */
interface Place {
  /** How many tokens end before this position. */
  readonly count: number;
  /** How many tokens there are up to this position, including a token that the position splits. */
  readonly through: number;
}

const whole = (count: number): Place => ({ count, through: count });

/**
 * Returns the number of tokens from the start of the text to each position in `ends`. Encodes the text
 * between consecutive positions, which is cheaper than encoding each prefix. Usually the pieces have the same
 * tokens as the complete text, because special tokens separate messages. Returns undefined if the tokens
 * differ.
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
 * Returns the position in the tokens of the joined text at which `before` ends and `after` begins. If
 * `before` or `after` has the same tokens in the joined text, the position is the boundary of these tokens.
 * Otherwise the result is the range of tokens that belong to neither text.
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
