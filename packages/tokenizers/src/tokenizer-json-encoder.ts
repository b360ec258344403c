import type { TokenizerJson } from './check-tokenizer-json.js';
import type { Model } from './components/models.js';
import type { Normalizer } from './components/normalizer.js';
import type { PreTokenizer } from './components/pre-tokenizers.js';
import { wordCharacter } from './components/unicode-versions.js';
import { rememberWords } from './remember-words.js';

/** The components of a tokenizer.json that are needed for encoding. */
interface EncodingComponents {
  readonly normalizer: Normalizer | undefined;
  readonly preTokenizer: PreTokenizer | undefined;
  readonly model: Model;
  readonly addedTokens: TokenizerJson['added_tokens'];
}

/** Returns true if a token is searched for in normalized text, in its own normalized form. */
export function isNormalized({ normalized, special }: TokenizerJson['added_tokens'][number]): boolean {
  return normalized ?? special !== true;
}

/**
 * Returns an encoder that encodes exactly as in the tokenizers library. It first finds added tokens, in the
 * text and in the normalized text. The text between these tokens is normalized, split into words and encoded
 * word by word. Undefined ids represent text without a token.
 */
export function tokenizerJsonEncoder({
  normalizer,
  preTokenizer,
  model,
  addedTokens,
}: EncodingComponents): (text: string) => (number | undefined)[] {
  const encodeWord = rememberWords(model);
  const splitText = addedTokenSplitter(addedTokens.filter((token) => !isNormalized(token)));
  const splitNormalized = addedTokenSplitter(
    addedTokens.filter(isNormalized).map((token): AddedToken => {
      return { ...token, content: normalizer?.normalize(token.content) ?? token.content };
    }),
  );
  const asksForFront = preTokenizer?.asksForFront === true;

  return (text) => {
    const encoded: (number | undefined)[] = [];
    const encodeWords = (part: string, front: number): void => {
      for (const word of preTokenizer?.split(part, front) ?? [part])
        for (const id of encodeWord(word)) encoded.push(id);
    };
    const encodePart = (part: string, isFirst: boolean): void => {
      // the number of UTF-16 code units in the first character of the text
      const front = isFirst && asksForFront ? (part.codePointAt(0)! > 0xffff ? 2 : 1) : 0;
      const normalized =
        asksForFront && normalizer !== undefined
          ? normalizer.trace({ text: part, front })
          : { text: normalizer?.normalize(part) ?? part, front };
      let start = 0;
      for (const { text: piece, id } of splitNormalized(normalized.text)) {
        if (id !== undefined) encoded.push(id);
        else encodeWords(piece, Math.max(0, Math.min(normalized.front - start, piece.length)));
        start += piece.length;
      }
    };
    let isFirst = true;
    for (const { text: part, id } of splitText(text)) {
      if (id !== undefined) encoded.push(id);
      else encodePart(part, isFirst);
      isFirst = false;
    }
    return encoded;
  };
}

/** A token for which a text is searched before it is split into words. */
interface AddedToken {
  readonly id: number;
  readonly content: string;
  /**
   * True if the token matches only where no letter, digit, mark or underscore is directly before or after it.
   */
  readonly single_word?: boolean;
  /** True if the token also matches the white space before it. */
  readonly lstrip?: boolean;
  /** True if the token also matches the white space after it. */
  readonly rstrip?: boolean;
}

/** A segment of a text: an added token, or the text between added tokens. */
interface TextSegment {
  readonly text: string;
  /** The id of the added token; undefined for text between added tokens. */
  readonly id: number | undefined;
}

interface TrieNode {
  readonly next: Map<number, TrieNode>;
  token?: AddedToken;
}

const wordAtEnd = new RegExp(`[${wordCharacter}]$`, 'v');
const wordAtStart = new RegExp(`^[${wordCharacter}]`, 'v');
const space = /\p{White_Space}/u;

/**
 * Returns a function that splits texts at added tokens in the same way as the tokenizers library: from left
 * to right, at the longest token that begins at a position. If that token must be a single word and is not,
 * it remains text, and no shorter token is searched for in it.
 */
function addedTokenSplitter(tokens: readonly AddedToken[]): (text: string) => TextSegment[] {
  const root: TrieNode = { next: new Map() };
  for (const token of tokens) insert(root, token);
  if (tokens.length === 0) return (text) => (text === '' ? [] : [{ text, id: undefined }]);

  return (text) => {
    const parts: TextSegment[] = [];
    let done = 0;
    const take = (end: number, id: number | undefined): void => {
      if (end > done) parts.push({ text: text.slice(done, end), id });
      done = Math.max(done, end);
    };
    for (let at = 0; at < text.length; ) {
      const token = longestAt(root, text, at);
      if (token === undefined) {
        at++;
        continue;
      }
      let start = at;
      let end = at + token.content.length;
      at = end;
      if (token.single_word === true && !isSingleWord(text, start, end)) continue;
      if (token.lstrip === true) while (start > done && space.test(text[start - 1]!)) start--;
      if (token.rstrip === true) while (end < text.length && space.test(text[end]!)) end++;
      take(start, undefined);
      take(end, token.id);
      at = Math.max(at, end);
    }
    take(text.length, undefined);
    return parts;
  };
}

function insert(root: TrieNode, token: AddedToken): void {
  let node = root;
  for (let i = 0; i < token.content.length; i++) {
    const unit = token.content.charCodeAt(i);
    let child = node.next.get(unit);
    if (child === undefined) {
      child = { next: new Map() };
      node.next.set(unit, child);
    }
    node = child;
  }
  node.token = token;
}

function longestAt(root: TrieNode, text: string, start: number): AddedToken | undefined {
  let longest: AddedToken | undefined;
  let node = root.next.get(text.charCodeAt(start));
  for (let i = start + 1; node !== undefined; i++) {
    longest = node.token ?? longest;
    if (i >= text.length) break;
    node = node.next.get(text.charCodeAt(i));
  }
  return longest;
}

function isSingleWord(text: string, start: number, end: number): boolean {
  // two UTF-16 code units on each side contain the neighbouring code point
  return (
    !wordAtEnd.test(text.slice(Math.max(0, start - 2), start)) && !wordAtStart.test(text.slice(end, end + 2))
  );
}
