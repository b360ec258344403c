import type { Tokenizer as Implementation } from '@huggingface/tokenizers';
import type { TokenizerJson } from './check-tokenizer-json.js';
import { rememberWords } from './remember-words.js';

/** The parts of the library's tokenizer that encoding needs; instances of the library can be called. */
interface LibraryParts {
  readonly normalizer: { normalize(text: string): string } | null;
  readonly pre_tokenizer: ((text: string, options: { section_index: number }) => string[]) | null;
  readonly model: ((words: string[]) => string[]) & {
    readonly tokens_to_ids: Map<string, number>;
    readonly unk_token_id?: number;
  };
}

/**
 * Encodes texts with the normalizer, pre-tokenizer and model of the library, and finds added tokens as the
 * tokenizers library does, which this one does not: it knows no single words, and takes added tokens for
 * words of the model. Undefined ids stand for text that has no token.
 */
export function tokenizerJsonEncoder(
  json: TokenizerJson,
  implementation: Implementation,
): (text: string) => (number | undefined)[] {
  const { normalizer, pre_tokenizer: preTokenize, model } = implementation as unknown as LibraryParts;
  const normalize = (text: string): string => normalizer?.normalize(text) ?? text;
  const ids = restoreVocabulary(json, model.tokens_to_ids);
  const encodeTokens = (words: string[]) => model(words).map((token) => ids.get(token) ?? model.unk_token_id);
  const encodeWord = rememberWords((word) => encodeTokens([word]));
  // unknown tokens of neighbouring words become one: then words are not independent
  const isFused = json.model.type === 'Unigram' || json.model.fuse_unk === true;
  const encodeWords = isFused ? encodeTokens : (words: string[]) => words.flatMap(encodeWord);
  const isNormalized = ({ normalized, special }: TokenizerJson['added_tokens'][number]): boolean =>
    normalized ?? special !== true;
  const splitText = addedTokenSplitter(json.added_tokens.filter((token) => !isNormalized(token)));
  const splitNormalized = addedTokenSplitter(
    json.added_tokens.filter(isNormalized).map((token): AddedToken => {
      return { ...token, content: normalize(token.content) };
    }),
  );

  return (text) => {
    const encoded: (number | undefined)[] = [];
    let isFirst = true;
    for (const { text: part, id } of splitText(text)) {
      const pieces = id === undefined ? splitNormalized(normalize(part)) : [{ text: part, id }];
      for (const piece of pieces) {
        if (piece.id !== undefined) encoded.push(piece.id);
        else {
          const words = preTokenize?.(piece.text, { section_index: isFirst ? 0 : 1 }) ?? [piece.text];
          for (const id of encodeWords(words)) encoded.push(id);
        }
        isFirst = false;
      }
    }
    return encoded;
  };
}

/** Takes out of the model's vocabulary, in place, the added tokens that the library has put there. */
function restoreVocabulary(json: TokenizerJson, ids: Map<string, number>): ReadonlyMap<string, number> {
  const { vocab } = json.model;
  const own = Array.isArray(vocab)
    ? new Map(vocab.map(([token], id) => [token as string, id]))
    : new Map(Object.entries(vocab as Record<string, number>));
  for (const { content } of json.added_tokens) {
    const id = own.get(content);
    if (id === undefined) ids.delete(content);
    else ids.set(content, id);
  }
  return ids;
}

/** A token that is looked for in texts before they are split into words. */
interface AddedToken {
  readonly id: number;
  readonly content: string;
  /** Only where no letter, digit, mark or underscore touches it. */
  readonly single_word?: boolean;
  /** Takes the white space before it. */
  readonly lstrip?: boolean;
  /** Takes the white space after it. */
  readonly rstrip?: boolean;
}

/** A part of a text: an added token, or what is between them. */
interface TextPart {
  readonly text: string;
  /** The id of the added token; undefined for text between them. */
  readonly id: number | undefined;
}

interface TrieNode {
  readonly next: Map<number, TrieNode>;
  token?: AddedToken;
}

const wordAtEnd = /[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]$/u;
const wordAtStart = /^[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]/u;
const space = /\p{White_Space}/u;

/**
 * Splits texts at added tokens as the tokenizers library does: from the left the longest one at each place.
 * One that must be a single word and is not stays text, and no shorter one is looked for in it.
 */
function addedTokenSplitter(tokens: readonly AddedToken[]): (text: string) => TextPart[] {
  const root: TrieNode = { next: new Map() };
  for (const token of tokens) insert(root, token);
  if (tokens.length === 0) return (text) => (text === '' ? [] : [{ text, id: undefined }]);

  return (text) => {
    const parts: TextPart[] = [];
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
  // A code point is two units at most.
  return (
    !wordAtEnd.test(text.slice(Math.max(0, start - 2), start)) && !wordAtStart.test(text.slice(end, end + 2))
  );
}
