// White space is Unicode's White_Space, as in the reference implementations; JavaScript's \s has U+FEFF and
// lacks U+0085.
const space = '\\t-\\r \\u0085\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000';

/** Splits a text into words as GPT-2 does (Radford 2019): each match is a word, and they cover the text. */
export const gpt2WordPattern = new RegExp(
  `'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^${space}\\p{L}\\p{N}]+|[${space}]+(?![^${space}])|[${space}]+`,
  'gu',
);
