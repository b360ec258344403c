import type { TokenizerJson } from '../check-tokenizer-json.js';
import type { Fail } from '../tokenizer-files.js';

const none = -1;

/**
 * The merges of a byte-pair encoding: a map from a pair of tokens to the rank of its merge and to the
 * resulting token. The map is a hash table with open addressing, because encoding looks up a pair for every
 * character, and opening a tokenizer adds tens of thousands of pairs.
 */
export class Merges {
  /** The ids of the tokens that result from merges, indexed by rank. */
  readonly made: Int32Array;
  readonly #lefts: Int32Array;
  readonly #rights: Int32Array;
  readonly #ranks: Int32Array;
  readonly #shift: number;

  constructor(numMerges: number) {
    // the number of entries in the table is at least twice the number of merges
    const bits = Math.max(1, Math.ceil(Math.log2(2 * numMerges + 1)));
    this.#shift = 32 - bits;
    this.made = new Int32Array(numMerges);
    this.#lefts = new Int32Array(2 ** bits);
    this.#rights = new Int32Array(2 ** bits);
    this.#ranks = new Int32Array(2 ** bits).fill(none);
  }

  /** Adds a pair of ids. If a pair is added twice, the last rank counts. */
  add(left: number, right: number, { rank, made }: { readonly rank: number; readonly made: number }): void {
    const place = this.#findPlace(left, right);
    this.#lefts[place] = left;
    this.#rights[place] = right;
    this.#ranks[place] = rank;
    this.made[rank] = made;
  }

  /** Returns the rank of a pair of ids; -1 if the pair is not merged. */
  findRank(left: number, right: number): number {
    return this.#ranks[this.#findPlace(left, right)]!;
  }

  /** Returns the index of a pair in the table, or the index at which the pair would be inserted. */
  #findPlace(left: number, right: number): number {
    const last = this.#ranks.length - 1;
    let place = (Math.imul(left, 0x9e3779b1) ^ Math.imul(right, 0x85ebca6b)) >>> this.#shift;
    while (this.#ranks[place] !== none && (this.#lefts[place] !== left || this.#rights[place] !== right)) {
      place = (place + 1) & last;
    }
    return place;
  }
}

/**
 * Reads the merges of a model.
 *
 * @param ids the ids of all tokens
 * @param fail called for the first merge that is invalid, or that has a token without an id
 */
export function readMerges(
  { merges: list = [], continuing_subword_prefix: prefix }: TokenizerJson['model'],
  ids: ReadonlyMap<string, number>,
  fail: Fail,
): Merges {
  const merges = new Merges(list.length);
  const start = (prefix ?? '').length;
  for (let rank = 0; rank < list.length; rank++) {
    const merge: unknown = list[rank];
    const [left, right] = readMerge(merge) ?? malformed(rank, merge, fail);
    if (start > 0 && !right.startsWith(prefix!)) {
      const expected = `one that begins with the model.continuing_subword_prefix ${JSON.stringify(prefix)}`;
      fail(`merge number ${rank} has the right token ${JSON.stringify(right)}`, expected);
    }
    const token = left + (start === 0 ? right : right.slice(start));
    const [leftId, rightId, made] = [ids.get(left), ids.get(right), ids.get(token)];
    if (leftId === undefined || rightId === undefined || made === undefined) {
      const missing = leftId === undefined ? left : rightId === undefined ? right : token;
      return fail(`merge number ${rank} needs the token ${JSON.stringify(missing)}, which has no id`);
    }
    merges.add(leftId, rightId, { rank, made });
  }
  return merges;
}

/**
 * Returns the two tokens of a merge, which is a string with a space between the tokens, or a pair. Returns
 * undefined for an invalid merge.
 */
function readMerge(merge: unknown): readonly [string, string] | undefined {
  if (typeof merge === 'string') {
    const space = merge.indexOf(' ');
    if (space < 0 || merge.indexOf(' ', space + 1) >= 0) return undefined;
    return [merge.slice(0, space), merge.slice(space + 1)];
  }
  if (!Array.isArray(merge) || merge.length !== 2) return undefined;
  const [left, right] = merge as readonly unknown[];
  return typeof left === 'string' && typeof right === 'string' ? [left, right] : undefined;
}

function malformed(rank: number, merge: unknown, fail: Fail): never {
  return fail(`has a malformed merge (number ${rank}): ${JSON.stringify(merge)}`, 'a pair of tokens');
}
