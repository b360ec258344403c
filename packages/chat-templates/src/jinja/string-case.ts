import { whitespace } from './lexer.js';

// Single characters that combine two letters, such as Ǆ. Their title case (ǅ) is a separate character.
const titles = new Map<string, string>(
  ['Ǆǅǆ', 'Ǉǈǉ', 'Ǌǋǌ', 'Ǳǲǳ'].flatMap((letters) => {
    const [upper, title, lower] = Array.from(letters) as [string, string, string];
    return [upper, title, lower].map((one) => [one, title] as const);
  }),
);
const georgian = /^[\u10d0-\u10fa\u10fd-\u10ff]$/;
// Greek letters with a small iota below, in title case or lower case.
const iota = /^[\u1f80-\u1faf\u1fb3\u1fbc\u1fc3\u1fcc\u1ff3\u1ffc]$/;

/** Returns the title-case form of `character`, which is used at the start of a word. */
function findTitleCase(character: string): string {
  const known = titles.get(character);
  if (known !== undefined) return known;
  if (georgian.test(character)) return character;
  if (iota.test(character)) return iotaTitle(character);
  const [first = '', ...others] = Array.from(character.toUpperCase());
  return others.length === 0 ? first : first + lowered(others, first);
}

/**
 * Lower-cases `others`, the characters after `first` in an upper-case form of several characters. Accents do
 * not change.
 */
const lowered = (others: readonly string[], first: string): string =>
  // An upper-case form that begins with an apostrophe keeps its other characters as they are.
  first === 'ʼ'
    ? others.join('')
    : others.map((one) => (one === 'Ι' ? '\u0345' : one.toLowerCase())).join('');

function iotaTitle(character: string): string {
  const code = character.codePointAt(0)!;
  if (code <= 0x1faf) return String.fromCodePoint(code | 8);
  return String.fromCodePoint(code & 8 ? code : code + 9);
}

/** Computes `text.capitalize()`. */
export function capitalized(characters: readonly string[]): string {
  const [first = '', ...others] = characters;
  return findTitleCase(first) + tail(first, others.join(''));
}

/**
 * Converts `text` to lower case. `before` is the character in front of it, which is needed because a sigma at
 * the end of a word, after a letter, has a different lower-case form.
 */
const tail = (before: string, text: string): string =>
  text === ''
    ? ''
    : (/\p{L}/u.test(before) ? `a${text}` : text).toLowerCase().slice(/\p{L}/u.test(before) ? 1 : 0);

const cased = /[\p{Lowercase}\p{Uppercase}\p{Lt}]/u;

/**
 * Computes `text.title()`. A word begins after a character that has neither an upper-case nor a lower-case
 * form.
 */
export function titled(characters: readonly string[]): string {
  let result = '';
  let word = '';
  const close = () => {
    const [first = '', ...others] = Array.from(word);
    result += findTitleCase(first) + tail(first, others.join(''));
    word = '';
  };
  for (const character of characters) {
    if (cased.test(character)) word += character;
    else {
      close();
      result += character;
    }
  }
  close();
  return result;
}

/** Computes `text.swapcase()`. */
export const swapped = (characters: readonly string[]): string =>
  characters
    .map((one, index) => {
      if (/\p{Lowercase}/u.test(one)) return one.toUpperCase();
      if (one !== 'Σ') return /\p{Uppercase}/u.test(one) ? one.toLowerCase() : one;
      // a sigma at the end of a word has a different lower-case form, so the characters before and after it
      // are needed
      const [before, after] = [
        characters.slice(Math.max(0, index - 8), index),
        characters.slice(index + 1, index + 9),
      ];
      return before.join('').length === 0
        ? 'σ'
        : `${before.join('')}Σ${after.join('')}`.toLowerCase()[before.join('').toLowerCase().length]!;
    })
    .join('');

/** Computes `text.casefold()`. */
export const folded = (characters: readonly string[]): string =>
  characters
    .map((one) => (one === 'ı' ? one : one.toUpperCase().toLowerCase().replaceAll('ς', 'σ')))
    .join('');

const all = (pattern: string) => new RegExp(`^(?:${pattern})+$`, 'u');
/** Matches digits that `int` accepts, and the other characters for which `isdigit` returns true. */
const digit =
  '[\\p{Nd}\u00b2\u00b3\u00b9\u2070\u2074-\u2079\u2080-\u2089\u2460-\u2468\u2474-\u247c\u2488-\u2490\u24ea\u24f5-\u24fd\u24ff\u2776-\u277e\u2780-\u2788\u278a-\u2792\u1369-\u1371\u19da]';

/** The patterns for `text.isalpha()` and similar tests. A string that matches the pattern passes the test. */
const classes: Readonly<Record<string, RegExp>> = {
  isalpha: all('\\p{L}'),
  isdecimal: all('\\p{Nd}'),
  isdigit: all(digit),
  isnumeric: all(
    '\\p{N}|[\u4e00\u4e8c\u4e09\u56db\u4e94\u516d\u4e03\u516b\u4e5d\u5341\u767e\u5343\u842c\u4e07\u5104\u4ebf\u5146\u96f6\u3007]',
  ),
  isalnum: all('\\p{L}|\\p{N}'),
  isspace: all(`[${whitespace}]`),
};

/**
 * Returns true if `text` passes the Python test `name`, such as `isalpha` or `isupper`; undefined for an
 * unknown name.
 */
export function isOfKind(name: string, text: string): boolean | undefined {
  const pattern = classes[name];
  if (pattern !== undefined) return pattern.test(text);
  switch (name) {
    case 'isascii':
      return !/[\x80-\uffff]/.test(text);
    case 'isprintable':
      return !/[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/u.test(text);
    case 'isidentifier':
      return /^[\p{ID_Start}_][\p{ID_Continue}]*$/u.test(text);
    case 'islower':
      return /\p{Lowercase}/u.test(text) && !/[\p{Uppercase}\p{Lt}]/u.test(text);
    case 'isupper':
      return /\p{Uppercase}/u.test(text) && !/[\p{Lowercase}\p{Lt}]/u.test(text);
    case 'istitle':
      return isTitle(text);
    default:
      return undefined;
  }
}

function isTitle(text: string): boolean {
  let follows = false;
  let hasCase = false;
  for (const character of text) {
    const isUpper = /[\p{Uppercase}\p{Lt}]/u.test(character);
    const isLower = /\p{Lowercase}/u.test(character);
    if ((isUpper && follows) || (isLower && !follows)) return false;
    follows = isUpper || isLower;
    hasCase ||= follows;
  }
  return hasCase;
}
