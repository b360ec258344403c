import type { Tokenizer as Implementation } from '@huggingface/tokenizers';
import { type AddedToken, addedTokenSplitter } from './added-token-splitter.js';
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
