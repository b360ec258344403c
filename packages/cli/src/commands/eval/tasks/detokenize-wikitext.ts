/** White space as Python's `\s` has it: JavaScript's would take byte order marks and leave separators. */
const space = '[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]';

const pairs = ['()', '[]', '{}', '""', "''"] as const;

type Rule = readonly [what: string | RegExp, by: string];

/** Rules in their order: what one makes, the next one sees. */
const rules: readonly Rule[] = [
  ["s '", "s'"],
  // Megatron has a rule for "' 98" here that never applies, so there is none
  [' @-@ ', '-'],
  [' @,@ ', ','],
  [' @.@ ', '.'],
  ...[':', ';', '.', '!', '?', ','].map((mark): Rule => [` ${mark} `, `${mark} `]),
  ...pairs.map(([left, right]): Rule => {
    const [open, close] = [`\\${left}`, `\\${right}`];
    return [new RegExp(`${open}${space}*([^${close}]*?)${space}*${close}`, 'g'), `${left}$1${right}`];
  }),
  ['= = = =', '===='],
  ['= = =', '==='],
  ['= =', '=='],
  [' \u00b0 ', '\u00b0'],
  [' \n', '\n'],
  ['\n ', '\n'],
  [' N ', ' 1 '],
  [" 's", "'s"],
];

/**
 * The text that a WikiText file was made of, as far as rules can tell: the file has spaces around
 * punctuation. The rules are those of Megatron-LM's evaluation, quirks included, so that perplexities can be
 * compared.
 */
export function detokenizeWikitext(text: string): string {
  return rules.reduce((result, [what, by]) => result.replaceAll(what, by), text);
}
