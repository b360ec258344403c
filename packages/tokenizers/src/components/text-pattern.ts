import { toRegExp, toRegExpDetails } from 'oniguruma-to-es';
import { runBounded, SlowPatternError } from './bounded-matching.js';
import { mayBacktrack } from './pattern-cost.js';
import { newerThanUnicode16 } from './unicode-versions.js';

/** The pattern of a Split or Replace component in a tokenizer.json. */
export interface PatternSettings {
  readonly String?: string;
  readonly Regex?: string;
}

/** Returns the start and end of each match in `text`, one match after the other. */
export type TextPattern = (text: string) => number[];

/** How a Split component treats matches, by the names in tokenizer.json. */
export const splitBehaviors = [
  'Removed',
  'Isolated',
  'MergedWithPrevious',
  'MergedWithNext',
  'Contiguous',
] as const;
export type SplitBehavior = (typeof splitBehaviors)[number];

/** A match of a pattern, or the text between two matches. */
interface Segment {
  start: number;
  end: number;
  readonly isMatch: boolean;
}

/**
 * Returns a function that searches for a pattern. Texts on which a regular expression could be slow are
 * searched with a time limit (see `runBounded`).
 *
 * @throws SyntaxError for an Oniguruma expression that is invalid, or has no equivalent in JavaScript
 */
export function textPattern({ String: text, Regex: expression }: PatternSettings): TextPattern {
  if (expression === undefined) return findAll(new RegExp(escaped(text ?? ''), 'gu'));
  const find = findAll(onigurumaExpression(expression));
  const isSlow = mayBacktrack(asOnigurumaReads(expression));
  return (searched) => {
    const known = withoutNewerCharacters(searched);
    if (!isSlow(known)) return find(known);
    try {
      return runBounded(known, () => find(known));
    } catch (cause) {
      if (!(cause instanceof SlowPatternError)) throw cause;
      throw new SlowPatternError(`the expression ${JSON.stringify(expression)}: ${cause.message}`, { cause });
    }
  };
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}

/**
 * Returns a function that finds all matches of a global expression. An empty match immediately after a
 * previous match is ignored.
 */
export function findAll(pattern: RegExp): TextPattern {
  return (text) => {
    const found: number[] = [];
    for (const match of text.matchAll(pattern)) {
      const start = match.index;
      const end = start + match[0].length;
      if (start === end && start === (found.at(-1) ?? -1)) continue;
      found.push(start, end);
    }
    return found;
  };
}

const newer = new RegExp(`[${newerThanUnicode16}\\u0295]`, 'u');
const allNewer = new RegExp(newer, 'gu');

/**
 * Replaces each character that is unknown to the Oniguruma version in the `tokenizers` library by an
 * unassigned character of the same length. U+0295, which is not a lowercase letter in Unicode 17, is replaced
 * by the lowercase letter U+0138.
 */
export function withoutNewerCharacters(text: string): string {
  if (!newer.test(text)) return text;
  return text.replace(allNewer, (character) => {
    if (character === '\u0295') return '\u0138';
    return character.length === 1 ? '\u0378' : '\u{e0080}';
  });
}

/** Replaces each match by `content`, in which `$` has no special meaning. */
export function replaceMatches(text: string, pattern: TextPattern, content: string): string {
  const found = pattern(text);
  let replaced = '';
  let done = 0;
  for (let i = 0; i < found.length; i += 2) {
    replaced += text.slice(done, found[i]) + content;
    done = found[i + 1]!;
  }
  return replaced + text.slice(done);
}

/**
 * Splits a text in the same way as a Split component of the tokenizers library. With `invert`, the gaps
 * between matches count as matches.
 *
 * @returns the start and end of each section, one section after the other. No section is empty
 */
export function splitText(
  text: string,
  { pattern, behavior, invert = false }: { pattern: TextPattern; behavior: SplitBehavior; invert?: boolean },
): number[] {
  const parts = splitParts(text, pattern(text), invert);
  const split: number[] = [];
  for (const { start, end } of joinMatches(parts, behavior)) if (end > start) split.push(start, end);
  return split;
}

/** Returns the matches and the gaps between them. */
function splitParts(text: string, found: readonly number[], invert: boolean): Segment[] {
  const parts: Segment[] = [];
  let done = 0;
  for (let i = 0; i < found.length; i += 2) {
    const start = found[i]!;
    if (start > done) parts.push({ start: done, end: start, isMatch: invert });
    done = found[i + 1]!;
    parts.push({ start, end: done, isMatch: !invert });
  }
  if (done < text.length) parts.push({ start: done, end: text.length, isMatch: invert });
  return parts;
}

function joinMatches(parts: readonly Segment[], behavior: SplitBehavior): readonly Segment[] {
  if (behavior === 'Isolated') return parts;
  if (behavior === 'Removed') return parts.filter(({ isMatch }) => !isMatch);
  const isBackwards = behavior === 'MergedWithNext';
  const joined: Segment[] = [];
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

// the word characters of the tokenizers library's Oniguruma, as found by testing all code points. Outside of
// a class, `\w` also matches the superscripts and fractions of Latin-1
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
 * Converts a regular expression of a tokenizer.json, in Oniguruma's syntax, to a JavaScript expression that
 * matches the same strings. As in Oniguruma, possessive quantifiers and atomic groups do not backtrack, case
 * is ignored for letters of all scripts, and `$` matches at the end of a line.
 *
 * @returns a global expression, whose groups may be numbered differently
 * @throws SyntaxError for an invalid expression, or an expression without a JavaScript equivalent
 */
function onigurumaExpression(pattern: string): RegExp {
  const source = asOnigurumaReads(pattern);
  try {
    const { pattern: translated, flags, options } = toRegExpDetails(source);
    // atomic groups are emulated by hidden groups; without atomic groups, a plain JavaScript expression
    // suffices
    if (options?.strategy === undefined) return new RegExp(translated, `${flags}g`);
    return toRegExp(source, { global: true });
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new SyntaxError(`the expression ${JSON.stringify(pattern)}: ${why}`, { cause });
  }
}

/**
 * Rewrites constructs that oniguruma-to-es 4.3.6 interprets differently from Oniguruma: `\w`, `\b`, and
 * `{n}?`, which in Oniguruma makes a repetition optional.
 */
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
