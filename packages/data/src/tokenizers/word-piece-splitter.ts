import type { TokenizerJson } from './check-tokenizer-json.js';

/** A piece of a word: its token, and the code points of the word that it represents. */
export interface WordPiece {
  readonly token: string;
  readonly from: number;
  readonly to: number;
}

/**
 * Splits words as BERT's WordPiece does (Wu 2016): the longest token from the front, again and again; one
 * unknown token for a word that cannot be split or is too long. Linear in the length of a word, times that of
 * the longest token.
 *
 * @param tokens those of the model; added tokens are none
 */
export function wordPieceSplitter(
  model: TokenizerJson['model'],
  tokens: { has(token: string): boolean; keys(): Iterable<string> },
): (word: string) => WordPiece[] {
  const prefix = model.continuing_subword_prefix ?? '##';
  const longestWord = (model as { max_input_chars_per_word?: number }).max_input_chars_per_word ?? 100;
  const unknown = model.unk_token as string;
  let longestToken = 0;
  for (const token of tokens.keys()) longestToken = Math.max(longestToken, token.length);

  return (word) => {
    // Where in the word each code point begins, and its end.
    const offsets = [0];
    for (const character of word) offsets.push(offsets[offsets.length - 1]! + character.length);
    const length = offsets.length - 1;
    const asUnknown = [{ token: unknown, from: 0, to: length }];
    if (length > longestWord) return asUnknown;
    const pieces: WordPiece[] = [];
    for (let from = 0; from < length; from = pieces[pieces.length - 1]!.to) {
      const start = from > 0 ? prefix : '';
      let to = Math.min(length, from + longestToken);
      let token = start + word.slice(offsets[from], offsets[to]);
      while (to > from && !tokens.has(token)) token = start + word.slice(offsets[from], offsets[--to]);
      if (to === from) return asUnknown;
      pieces.push({ token, from, to });
    }
    return pieces;
  };
}
