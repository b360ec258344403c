import { onigurumaExpression } from './oniguruma-expression.js';

/** The pattern of a Split or Replace in a tokenizer.json, as `checkTokenizerJson` has checked it. */
export interface PatternSettings {
  readonly String?: string;
  readonly Regex?: string;
}

/** What a Split does with matches, as tokenizer.json names it. */
export const splitBehaviors = [
  'Removed',
  'Isolated',
  'MergedWithPrevious',
  'MergedWithNext',
  'Contiguous',
] as const;
export type SplitBehavior = (typeof splitBehaviors)[number];

interface Part {
  start: number;
  end: number;
  readonly isMatch: boolean;
}

/** The pattern as a global expression. */
export function textPattern({ String: text, Regex: expression }: PatternSettings): RegExp {
  if (expression !== undefined) return onigurumaExpression(expression);
  return new RegExp((text ?? '').replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), 'gu');
}

/** Replaces the matches by a text in which `$` is a character like any other. */
export function replaceMatches(text: string, pattern: RegExp, content: string): string {
  const parts = partsOf(text, pattern).map(({ start, end, isMatch }) =>
    isMatch ? content : text.slice(start, end),
  );
  return parts.join('');
}

/** Splits a text as a Split of the tokenizers library; with `invert` what is between matches is a match. */
export function splitText(
  text: string,
  { pattern, behavior, invert = false }: { pattern: RegExp; behavior: SplitBehavior; invert?: boolean },
): string[] {
  const parts = partsOf(text, pattern).map((part) => ({ ...part, isMatch: part.isMatch !== invert }));
  return joinMatches(parts, behavior)
    .filter(({ start, end }) => end > start)
    .map(({ start, end }) => text.slice(start, end));
}

/** Matches and what is between them. An empty match where the one before it ends does not count. */
function partsOf(text: string, pattern: RegExp): Part[] {
  const parts: Part[] = [];
  let done = 0;
  for (const match of text.matchAll(pattern)) {
    const start = match.index;
    const end = start + match[0].length;
    if (start === end && start === done && parts.length > 0) continue;
    if (start > done) parts.push({ start: done, end: start, isMatch: false });
    parts.push({ start, end, isMatch: true });
    done = end;
  }
  if (done < text.length) parts.push({ start: done, end: text.length, isMatch: false });
  return parts;
}

function joinMatches(parts: readonly Part[], behavior: SplitBehavior): readonly Part[] {
  if (behavior === 'Isolated') return parts;
  if (behavior === 'Removed') return parts.filter(({ isMatch }) => !isMatch);
  const isBackwards = behavior === 'MergedWithNext';
  const joined: Part[] = [];
  let wasMatch = false;
  for (const part of isBackwards ? parts.toReversed() : parts) {
    const { isMatch } = part;
    const joins = behavior === 'Contiguous' ? isMatch === wasMatch : isMatch && !wasMatch;
    const last = joined.at(-1);
    if (!joins || last === undefined) joined.push({ ...part });
    else if (isBackwards) last.start = part.start;
    else last.end = part.end;
    wasMatch = isMatch;
  }
  return isBackwards ? joined.toReversed() : joined;
}
