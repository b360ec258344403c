import type { Tokenizer } from '@mtl/tokenizers';
import { endOfText } from '@mtl/tokenizers/internal';
import type { AssistantText } from './assistant-spans.js';

/**
 * Returns the ids of a rendered conversation: texts of special tokens are these tokens. Tokenizers that are
 * built in take all text for plain text; here `<|endoftext|>` ends a document in them too.
 */
export function chatTokens(tokenizer: Tokenizer, text: string): Int32Array | number[] {
  if (tokenizer.specialIds !== undefined || !text.includes(endOfText)) return tokenizer.encode(text);
  return text
    .split(endOfText)
    .flatMap((part, index) => [...(index === 0 ? [] : [tokenizer.eod]), ...tokenizer.encode(part)]);
}

/** A text as tokens, and which of them are in its spans. */
interface TokensInSpans {
  readonly tokens: ArrayLike<number>;
  /** For each token 1 where a span has it, else 0. */
  readonly isInSpan: Uint8Array;
  /** True if some span begins or ends inside a token; it counts as the span's. */
  readonly splitsTokens: boolean;
}

/**
 * Encodes a whole text, so that its tokens are those of any other reader, and finds the tokens of its spans,
 * which are in order and do not overlap.
 */
export function tokensInSpans({ text, spans }: AssistantText, tokenizer: Tokenizer): TokensInSpans {
  const tokens = chatTokens(tokenizer, text);
  const ends = spans.flatMap(({ start, end }) => [start, end]);
  const counts = countsByPieces({ text, ends, tokens, tokenizer }) ?? [];
  const places = ends.map((end, index) => {
    const count = counts[index];
    if (count !== undefined) return whole(count);
    const [before, after] = [text.slice(0, end), text.slice(end)].map((part) => chatTokens(tokenizer, part));
    return placeOf(tokens, { before: before!, after: after! });
  });
  const isInSpan = new Uint8Array(tokens.length);
  for (let span = 0; span < spans.length; span++) {
    const [start, end] = [places[2 * span]!, places[2 * span + 1]!];
    isInSpan.fill(1, start.count, end.through);
  }
  return { tokens, isInSpan, splitsTokens: places.some(({ count, through }) => count < through) };
}

/** The place of a character among the tokens of the whole text. */
interface Place {
  /** Tokens that are wholly before it. */
  readonly count: number;
  /** Number of tokens up to it, with those on both sides of it. */
  readonly through: number;
}

const whole = (count: number): Place => ({ count, through: count });

/**
 * Returns tokens up to each of the ends, where the pieces between them give together the tokens of the whole
 * text: mostly, since special tokens are at the ends of messages. Cheaper than encoding all that is before
 * each.
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
 * Returns the place where the texts `before` and `after` a character meet in the tokens of both together:
 * where one of them has the tokens that it has in the whole, there; else somewhere in the tokens that neither
 * has.
 */
function placeOf(
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
