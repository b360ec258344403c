import type { TokenizerJson } from '../check-tokenizer-json.js';
import { byteTokens } from './byte-pair-model.js';

// the score of an unknown character is the score of the rarest token minus this penalty, as a logarithm of
// probability
const unknownPenalty = 10;
const unitRadix = 2 ** 16;

/**
 * Returns an encoder that splits words into the most likely sequence of tokens (Kudo 2018). Adjacent unknown
 * characters form a single unknown token. If the model has `byte_fallback` and tokens for all bytes of the
 * unknown characters, byte tokens replace these characters. The time is proportional to the word's length
 * times the longest token's length.
 *
 * @returns the encoder. An undefined id represents a section without a token, if the model has no unknown
 *   token
 */
export function unigramModel(
  model: TokenizerJson['model'],
  ids: ReadonlyMap<string, number>,
): (word: string) => readonly (number | undefined)[] {
  const vocabulary = model.vocab as readonly (readonly [string, number])[];
  const scores = Float64Array.from(vocabulary, ([, score]) => score);
  const unknownId = model.unk_id ?? undefined;
  const bestPath = pathFinder(ids, scores);
  return (word) => {
    const found: (number | undefined)[] = [];
    let unknownFrom = -1;
    const endUnknown = (end: number): void => {
      if (unknownFrom < 0) return;
      const text = word.slice(unknownFrom, end);
      unknownFrom = -1;
      const known = ids.get(text);
      if (known !== undefined) found.push(known);
      else found.push(...((model.byte_fallback === true && byteTokens(text, ids)) || [unknownId]));
    };
    const path = bestPath(word);
    for (let i = 0; i < path.length; i += 2) {
      const [start, id] = [path[i]!, path[i + 1]!];
      if (id < 0 || id === unknownId) {
        if (unknownFrom < 0) unknownFrom = start;
        continue;
      }
      endUnknown(start);
      found.push(id);
    }
    endUnknown(word.length);
    return found;
  };
}

/**
 * Returns a function that finds the most likely tokens of a word. The function returns the start and id of
 * each token, one token after the other. The id of an unknown character is -1.
 */
function pathFinder(ids: ReadonlyMap<string, number>, scores: Float64Array): (word: string) => number[] {
  const trie = new Trie(ids);
  let lowest = Number.POSITIVE_INFINITY;
  for (const score of scores) lowest = Math.min(lowest, score);
  const unknownScore = lowest - unknownPenalty;
  return (word) => {
    const size = word.length;
    const best = new Float64Array(size + 1);
    const starts = new Int32Array(size + 1).fill(-1);
    const tokens = new Int32Array(size + 1);
    const offer = (start: number, end: number, id: number): void => {
      const score = best[start]! + (id < 0 ? unknownScore : scores[id]!);
      if (starts[end]! >= 0 && !(score > best[end]!)) return;
      best[end] = score;
      starts[end] = start;
      tokens[end] = id;
    };
    for (let start = 0; start < size; ) {
      const next = start + (word.codePointAt(start)! > 0xffff ? 2 : 1);
      let hasSingle = false;
      let node = 0;
      for (let end = start; end < size; ) {
        node = trie.child(node, word.charCodeAt(end++));
        if (node < 0) break;
        const id = trie.idAt(node);
        if (id < 0) continue;
        hasSingle ||= end === next;
        offer(start, end, id);
      }
      if (!hasSingle) offer(start, next, -1);
      start = next;
    }
    const path: number[] = [];
    for (let end = size; end > 0; end = starts[end]!) path.push(tokens[end]!, starts[end]!);
    return path.reverse();
  };
}

/** A trie of the tokens' UTF-16 code units. */
class Trie {
  readonly #children = new Map<number, number>();
  readonly #ids: number[] = [-1];

  constructor(ids: ReadonlyMap<string, number>) {
    for (const [token, id] of ids) {
      if (token === '') continue;
      let node = 0;
      for (let i = 0; i < token.length; i++) {
        const key = node * unitRadix + token.charCodeAt(i);
        let child = this.#children.get(key);
        if (child === undefined) {
          child = this.#ids.push(-1) - 1;
          this.#children.set(key, child);
        }
        node = child;
      }
      this.#ids[node] = id;
    }
  }

  /** Returns the child of a node; -1 if there is none. */
  child(node: number, unit: number): number {
    return this.#children.get(node * unitRadix + unit) ?? -1;
  }

  /** Returns the id of the token that ends at a node; -1 if no token ends there. */
  idAt(node: number): number {
    return this.#ids[node]!;
  }
}
