import { toRegExp, toRegExpDetails } from 'oniguruma-to-es';

/** The pattern of a Split or Replace in a tokenizer.json, as `checkTokenizerJson` has checked it. */
export interface PatternSettings {
  readonly String?: string;
  readonly Regex?: string;
}

/** Treatments of the matches of a Split, as tokenizer.json names them. */
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

/** Returns the pattern as a global expression. */
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

// Word characters of the tokenizers library's Oniguruma, measured over all code points: outside of a class,
// `\w` also has the superscripts and fractions of Latin-1.
const wordsInClass = '\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}';
const words = `${wordsInClass}\u00b2\u00b3\u00b9\u00bc-\u00be`;
const boundary = (isBoundary: boolean): string => {
  const [start, end] = isBoundary ? ['=', '!'] : ['=', '='];
  return `(?:(?<=[${words}])(?${end}[${words}])|(?<![${words}])(?${isBoundary ? start : '!'}[${words}]))`;
};
const rewritten: ReadonlyMap<string, string> = new Map([
  ['\\w', `[${words}]`],
  ['\\W', `[^${words}]`],
  ['\\b', boundary(true)],
  ['\\B', boundary(false)],
]);
const rewrittenInClass: ReadonlyMap<string, string> = new Map([
  ['\\w', `[${wordsInClass}]`],
  ['\\W', `[^${wordsInClass}]`],
]);

/**
 * Returns a regular expression of a tokenizer.json, which is one of Oniguruma, as one of JavaScript that
 * matches the same texts: possessive quantifiers and atomic groups do not backtrack, letters of all scripts
 * fold, `$` ends a line.
 *
 * @returns a global expression; its groups have other numbers than those of the pattern
 * @throws SyntaxError for what is not an expression of Oniguruma, or has no counterpart
 */
function onigurumaExpression(pattern: string): RegExp {
  const source = asOnigurumaReads(pattern);
  try {
    const { pattern: translated, flags, options } = toRegExpDetails(source);
    // Hidden groups stand for atomic ones; without them the engine of JavaScript does everything.
    if (options?.strategy === undefined) return new RegExp(translated, `${flags}g`);
    return toRegExp(source, { global: true });
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new SyntaxError(`the expression ${JSON.stringify(pattern)}: ${why}`, { cause });
  }
}

/** Spells out where oniguruma-to-es 4.3.6 reads a pattern differently: `\w`, `\b`, and `{n}?`, an option. */
function asOnigurumaReads(pattern: string): string {
  let depth = 0;
  return pattern.replace(/\\.|\[\^?\]?|\]|\{\d+\}\?/gsu, (found) => {
    if (found.startsWith('[')) depth++;
    else if (found === ']') depth = Math.max(0, depth - 1);
    else if (found.startsWith('\\')) return (depth > 0 ? rewrittenInClass : rewritten).get(found) ?? found;
    else if (depth === 0) return `${found.slice(0, -1)}{0,1}`;
    return found;
  });
}
