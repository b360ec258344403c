import type { TokenizerJson } from './check-tokenizer-json.js';
import { punctuation, whiteSpace } from './components/unicode-versions.js';

/** A piece of a word: its token, and its range of code points in the word. */
interface WordPiece {
  readonly token: string;
  readonly from: number;
  readonly to: number;
}

/**
 * Returns a function that splits words as BERT's WordPiece does (Wu 2016): it repeatedly takes the longest
 * token with which the rest of the word begins. A word that cannot be split, or that is too long, becomes a
 * single unknown token. The time is proportional to the word's length times the longest token's length.
 *
 * @param tokens the tokens of the model, without added tokens
 */
export function wordPieceSplitter(
  model: TokenizerJson['model'],
  tokens: { has(token: string): boolean; keys(): Iterable<string> },
): (word: string) => WordPiece[] {
  const prefix = model.continuing_subword_prefix ?? '##';
  const longestWord = model.max_input_chars_per_word ?? 100;
  const unknown = model.unk_token as string;
  let longestToken = 0;
  for (const token of tokens.keys()) longestToken = Math.max(longestToken, token.length);

  return (word) => {
    // the UTF-16 offset of each code point in the word, and the end of the word
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

/** The ids of the tokens in a text, and each token's range in the text. */
export interface EncodedText {
  readonly ids: readonly number[];
  /** For each token, the index of its first UTF-16 code unit in the text. */
  readonly starts: readonly number[];
  /** For each token, the index after its last UTF-16 code unit in the text. */
  readonly ends: readonly number[];
}

// BertPreTokenizer splits words at the punctuation that the `tokenizers` library knows, and at ASCII symbols
const isPunctuation = new RegExp(`^[${punctuation}]$`, 'v');
const isWhiteSpace = new RegExp(`^${whiteSpace}$`, 'u');
// the maximum number of cached characters; most texts use a few hundred, but a text could contain all
// characters of Unicode
const maximumCachedCharacters = 1 << 16;

/**
 * Returns an encoder with offsets for BERT's WordPiece (BertNormalizer, BertPreTokenizer); undefined for any
 * other pipeline. Its ids are equal to the ids of the `tokenizers` library. The origin of each normalized
 * character is known, because every step of this pipeline before the splitting of words works on single code
 * points. Marks that the normalizer drops belong to no token.
 */
export function wordPieceOffsets(
  json: TokenizerJson,
  {
    modelIds,
    normalize,
  }: { readonly modelIds: ReadonlyMap<string, number>; readonly normalize: (text: string) => string },
): ((text: string) => EncodedText) | undefined {
  const { model, added_tokens: added } = json;
  const readType = (part: unknown) => (part as { type?: unknown } | null)?.type;
  const isBert =
    model.type === 'WordPiece' &&
    readType(json.normalizer) === 'BertNormalizer' &&
    readType(json.pre_tokenizer) === 'BertPreTokenizer';
  // BERT's special tokens neither match white space around them, nor are limited to whole words
  const isPlain = added.every((token) => {
    const { special, lstrip, rstrip, single_word: word } = token as unknown as Record<string, unknown>;
    return special === true && lstrip !== true && rstrip !== true && word !== true;
  });
  if (!isBert || !isPlain) return undefined;
  const splitWord = wordSplitter(model, modelIds);
  const splitAdded = addedTokenSplitter(added);
  const normalized = cachedByCharacter(normalize);

  return (text) => {
    const encoded = { ids: [] as number[], starts: [] as number[], ends: [] as number[] };
    let word: Word = emptyWord();
    const endWord = (): void => {
      if (word.characters.length > 0) splitWord(word, encoded);
      word = emptyWord();
    };
    for (const { piece, start, id } of splitAdded(text)) {
      if (id !== undefined) {
        encoded.ids.push(id);
        encoded.starts.push(start);
        encoded.ends.push(start + piece.length);
        continue;
      }
      let from = start;
      for (const original of piece) {
        const to = from + original.length;
        for (const character of normalized(original)) {
          const standsAlone = isPunctuation.test(character);
          if (standsAlone || isWhiteSpace.test(character)) endWord();
          if (!isWhiteSpace.test(character)) {
            word.characters.push(character);
            word.starts.push(from);
            word.ends.push(to);
          }
          if (standsAlone) endWord();
        }
        from = to;
      }
      endWord();
    }
    return encoded;
  };
}

interface Word {
  readonly characters: string[];
  readonly starts: number[];
  readonly ends: number[];
}

const emptyWord = (): Word => ({ characters: [], starts: [], ends: [] });

/**
 * Returns a function that splits a word into its tokens, and appends them and their positions to the tokens
 * of the text.
 */
function wordSplitter(model: TokenizerJson['model'], ids: ReadonlyMap<string, number>) {
  const split = wordPieceSplitter(model, ids);
  return (word: Word, out: { ids: number[]; starts: number[]; ends: number[] }): void => {
    for (const { token, from, to } of split(word.characters.join(''))) {
      out.ids.push(ids.get(token)!);
      out.starts.push(word.starts[from]!);
      out.ends.push(word.ends[to - 1]!);
    }
  };
}

/** Returns a function that splits a text at the special tokens that it contains. */
function addedTokenSplitter(added: TokenizerJson['added_tokens']) {
  const ids = new Map(added.map(({ content, id }) => [content, id]));
  const escaped = [...ids.keys()]
    .sort((a, b) => b.length - a.length)
    .map((token) => token.replaceAll(/[$()*+.?[\\\]^{|}/-]/g, '\\$&'));
  const pattern = new RegExp(`(${escaped.join('|')})`);
  return (text: string): { piece: string; start: number; id: number | undefined }[] => {
    if (ids.size === 0) return [{ piece: text, start: 0, id: undefined }];
    let start = 0;
    return text.split(pattern).map((piece, i) => {
      const part = { piece, start, id: i % 2 === 1 ? ids.get(piece) : undefined };
      start += piece.length;
      return part;
    });
  };
}

function cachedByCharacter(normalize: (text: string) => string) {
  const cache = new Map<string, readonly string[]>();
  return (character: string): readonly string[] => {
    let found = cache.get(character);
    if (found === undefined) {
      found = [...normalize(character)];
      if (cache.size < maximumCachedCharacters) cache.set(character, found);
    }
    return found;
  };
}
