/** A pair of symbols that may be merged. */
export interface PairCandidate {
  /** left x 2^26 + right: also the order among pairs that are equally frequent. */
  readonly key: number;
  count: number;
  /** Numbers of the words in which the pair may stand. */
  readonly words: number[];
}

/** A binary heap of candidates: most frequent first, the smaller pair first among equals. */
export class PairHeap {
  readonly #items: PairCandidate[] = [];

  push(item: PairCandidate): void {
    const items = this.#items;
    let at = items.length;
    items.push(item);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!before(item, items[parent]!)) break;
      items[at] = items[parent]!;
      at = parent;
    }
    items[at] = item;
  }

  pop(): PairCandidate | undefined {
    const items = this.#items;
    const top = items[0];
    const item = items.pop();
    if (item === undefined || items.length === 0) return top;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= items.length) break;
      if (child + 1 < items.length && before(items[child + 1]!, items[child]!)) child++;
      if (!before(items[child]!, item)) break;
      items[at] = items[child]!;
      at = child;
    }
    items[at] = item;
    return top;
  }
}

function before(a: PairCandidate, b: PairCandidate): boolean {
  return a.count !== b.count ? a.count > b.count : a.key < b.key;
}
