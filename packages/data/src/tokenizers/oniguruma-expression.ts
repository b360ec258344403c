import { toRegExp, toRegExpDetails } from 'oniguruma-to-es';

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
 * A regular expression of a tokenizer.json, which is one of Oniguruma, as one of JavaScript that matches the
 * same texts: possessive quantifiers and atomic groups do not backtrack, letters of all scripts fold, `$`
 * ends a line.
 *
 * @returns a global expression; its groups have other numbers than those of the pattern
 * @throws SyntaxError for what is not an expression of Oniguruma, or has no counterpart
 */
export function onigurumaExpression(pattern: string): RegExp {
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
