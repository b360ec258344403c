import { rememberWords } from './remember-words.js';

// A key in the heap is `rank * 2^32 + position`, which float64 represents exactly for ranks below 2^21.
const radix = 2 ** 32;

/**
 * Byte-pair encoding (Sennrich 2016) over a vocabulary in which the id of a token is also the rank of its
 * merge, as in GPT-2's vocabulary. Among all neighbours that form a token, the pair whose token has the
 * lowest id is merged first. Among equal pairs, the leftmost is merged first. A word of n bytes takes O(n log
 * n) time. For vocabularies with a separate list of merges, as in a tokenizer.json, see
 * components/byte-pair-model.ts.
 */
export class BytePairEncoder {
  readonly #ids: ReadonlyMap<string, number>;
  readonly #longest: number;
  readonly #mergeOnce: (word: string) => readonly number[] = rememberWords((word) => this.merge(word));

  /**
   * @param ids the ids by token; tokens and words are byte strings, with a character from U+0000 to U+00FF
   * for
   *   each byte
   */
  constructor(ids: ReadonlyMap<string, number>) {
    this.#ids = ids;
    let longest = 0;
    for (const token of ids.keys()) longest = Math.max(longest, token.length);
    this.#longest = longest;
  }

  /** Returns the ids of a word. The vocabulary must contain every single byte. */
  encode(word: string): readonly number[] {
    const whole = this.#ids.get(word);
    return whole === undefined ? this.#mergeOnce(word) : [whole];
  }

  /**
   * Merges the bytes of a word, using only merges with an id below `end`. If the word is a token whose id is
   * `end`, two ids remain, which this token's merge would join.
   */
  merge(word: string, end = Number.POSITIVE_INFINITY): number[] {
    const size = word.length;
    // a linked list of pieces; each piece is identified by the position of its first byte
    const nexts = Int32Array.from({ length: size }, (_, i) => i + 1);
    const previous = Int32Array.from({ length: size }, (_, i) => i - 1);
    // for each piece, the id of the token that it forms with the next piece; -1 if they form no token
    const merged = new Int32Array(size).fill(-1);
    const heap: number[] = [];
    const look = (position: number): void => {
      const next = nexts[position]!;
      const last = next < size ? nexts[next]! : size;
      merged[position] = -1;
      if (next >= size || last - position > this.#longest) return;
      const id = this.#ids.get(word.slice(position, last));
      if (id === undefined || id >= end) return;
      merged[position] = id;
      push(heap, id * radix + position);
    };
    for (let position = 0; position < size; position++) look(position);
    for (let key = pop(heap); key !== undefined; key = pop(heap)) {
      const position = key % radix;
      // later merges have changed this pair since the entry was added, so the entry is skipped
      if (merged[position] !== (key - position) / radix) continue;
      const next = nexts[position]!;
      const after = nexts[next]!;
      merged[next] = -1;
      nexts[position] = after;
      if (after < size) previous[after] = position;
      look(position);
      if (position > 0) look(previous[position]!);
    }
    const ids: number[] = [];
    for (let position = 0; position < size; position = nexts[position]!) {
      ids.push(this.#ids.get(word.slice(position, nexts[position]!))!);
    }
    return ids;
  }
}

export function push(heap: number[], key: number): void {
  let at = heap.length;
  heap.push(key);
  while (at > 0) {
    const parent = (at - 1) >> 1;
    if (heap[parent]! <= key) break;
    heap[at] = heap[parent]!;
    at = parent;
  }
  heap[at] = key;
}

export function pop(heap: number[]): number | undefined {
  const top = heap[0];
  const key = heap.pop();
  if (key === undefined || heap.length === 0) return top;
  let at = 0;
  for (;;) {
    let child = 2 * at + 1;
    if (child >= heap.length) break;
    if (child + 1 < heap.length && heap[child + 1]! < heap[child]!) child++;
    if (heap[child]! >= key) break;
    heap[at] = heap[child]!;
    at = child;
  }
  heap[at] = key;
  return top;
}
