import type { TokenizerJson } from './check-tokenizer-json.js';
import { wordPieceSplitter } from './word-piece-splitter.js';

/** What a model of the library looks like to us. */
interface LibraryModel {
  readonly tokens_to_ids: ReadonlyMap<string, number>;
  encode(words: readonly string[]): string[];
  tokenize?(word: string): string[];
}

/**
 * Corrects models of @huggingface/tokenizers 0.2.0, in place, for long words: WordPiece took time that is
 * cubic in their length, and Unigram ran out of stack.
 */
export function correctModel(model: unknown, json: TokenizerJson['model']): void {
  const found = model as LibraryModel;
  if (json.type === 'WordPiece') {
    const split = wordPieceSplitter(json, found.tokens_to_ids);
    found.encode = (words) => words.flatMap((word) => split(word).map(({ token }) => token));
  }
  if (json.type === 'Unigram') found.encode = (words) => words.flatMap((word) => found.tokenize!(word));
}
