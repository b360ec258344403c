import { pop, push } from '../byte-pair-encoder.js';
import type { TokenizerJson } from '../check-tokenizer-json.js';
import type { Fail } from '../tokenizer-files.js';
import { type Merges, readMerges } from './merges.js';

// a key in the heap is `rank * 2^32 + position`
const rankRadix = 2 ** 32;

/**
 * Returns an encoder of words for the merges of a tokenizer.json. The encoder merges characters (or the bytes
 * of unknown characters) in the order of the merges. If a pair occurs several times, the leftmost occurrence
 * is merged first. A word of n characters takes O(n log n) time.
 *
 * @param fail called for an invalid merge, or for a merge with a token that has no id
 * @returns the encoder; an undefined id represents a character without a token, if the model has no unknown
 *   token
 */
export function bytePairModel(
  model: TokenizerJson['model'],
  ids: ReadonlyMap<string, number>,
  fail: Fail,
): (word: string) => readonly (number | undefined)[] {
  const { ignore_merges: ignoresMerges } = model;
  const merges = readMerges(model, ids, fail);
  const splitSymbols = firstSymbols(model, ids);
  return (word) => {
    const whole = ignoresMerges === true ? ids.get(word) : undefined;
    if (whole !== undefined) return [whole];
    const symbols = splitSymbols(word);
    return symbols.includes(undefined) ? symbols : mergeAll(symbols as number[], merges);
  };
}

const bytePieces = Array.from(
  { length: 256 },
  (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`,
);

/** Returns the ids of the tokens for the text's bytes; undefined unless every byte has an id. */
export function byteTokens(text: string, ids: ReadonlyMap<string, number>): number[] | undefined {
  const found: number[] = [];
  for (const byte of Buffer.from(text, 'utf8')) {
    const id = ids.get(bytePieces[byte]!);
    if (id === undefined) return undefined;
    found.push(id);
  }
  return found;
}

/** Returns a function that splits a word into its initial symbols and returns their ids, before any merge. */
function firstSymbols(
  model: TokenizerJson['model'],
  ids: ReadonlyMap<string, number>,
): (word: string) => (number | undefined)[] {
  const prefix = model.continuing_subword_prefix ?? '';
  const suffix = model.end_of_word_suffix ?? '';
  const unknownId = typeof model.unk_token === 'string' ? ids.get(model.unk_token) : undefined;
  const fuses = model.fuse_unk === true;
  return (word) => {
    const symbols: (number | undefined)[] = [];
    // the tokenizers library adds an unknown token only when it reaches the next token or unknown character,
    // but adds bytes immediately; `isPending` reproduces this order
    let isPending = false;
    const endUnknown = (): void => {
      if (isPending) symbols.push(unknownId);
      isPending = false;
    };
    let end = 0;
    for (const character of word) {
      const isFirst = end === 0;
      end += character.length;
      const symbol = (isFirst ? '' : prefix) + character + (end === word.length ? suffix : '');
      const id = ids.get(symbol);
      if (id !== undefined) {
        endUnknown();
        symbols.push(id);
        continue;
      }
      const bytes = model.byte_fallback === true ? byteTokens(symbol, ids) : undefined;
      if (bytes !== undefined) {
        symbols.push(...bytes);
        continue;
      }
      if (!fuses) endUnknown();
      isPending = true;
    }
    endUnknown();
    return symbols;
  };
}

/** Merges the symbols of a word in place. */
function mergeAll(symbols: number[], merges: Merges): readonly number[] {
  const size = symbols.length;
  if (size < 2) return symbols;
  const heap: number[] = [];
  // a linked list of symbols; each symbol is identified by the position of its first original symbol. Symbols
  // that were merged into their neighbour are -1
  const nexts = new Int32Array(size);
  const previous = new Int32Array(size);
  const look = (position: number): void => {
    const rank = merges.findRank(symbols[position]!, symbols[nexts[position]!]!);
    if (rank >= 0) push(heap, rank * rankRadix + position);
  };
  for (let position = 0; position < size; position++) {
    nexts[position] = position + 1;
    previous[position] = position - 1;
    if (position + 1 < size) look(position);
  }
  for (let key = pop(heap); key !== undefined; key = pop(heap)) {
    const position = key % rankRadix;
    const id = merges.made[(key - position) / rankRadix]!;
    const next = nexts[position]!;
    if (symbols[position] === -1 || next >= size) continue;
    // later merges may have changed the pair since the entry was added, but any pair that forms the same
    // token can be merged
    const rank = merges.findRank(symbols[position]!, symbols[next]!);
    if (rank < 0 || merges.made[rank] !== id) continue;
    const after = nexts[next]!;
    symbols[position] = id;
    symbols[next] = -1;
    nexts[position] = after;
    if (after < size) {
      previous[after] = position;
      look(position);
    }
    if (position > 0) look(previous[position]!);
  }
  return symbols.filter((id) => id !== -1);
}
