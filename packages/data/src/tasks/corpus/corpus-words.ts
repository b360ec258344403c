/** The words of works: which are how common, and which works use the same ones. */
export class CorpusWords {
  /** Words by their number in all works, the commonest (0) first, equal ones by the alphabet. */
  readonly rankOf: ReadonlyMap<string, number>;
  readonly #counts: readonly ReadonlyMap<string, number>[];
  readonly #vectors: readonly Float64Array[];
  readonly #sorted = new Map<number, readonly string[]>();
  readonly #alike = new Map<number, readonly number[]>();

  /** Works as sentences. */
  constructor(works: readonly (readonly string[])[]) {
    this.#counts = works.map((sentences) => countWords(sentences));
    const totals = new Map<string, number>();
    for (const counts of this.#counts) {
      for (const [word, count] of counts) totals.set(word, (totals.get(word) ?? 0) + count);
    }
    const sorted = [...totals].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1));
    this.rankOf = new Map(sorted.map(([word], rank) => [word, rank]));
    this.#vectors = this.#weigh();
  }

  /**
   * Returns words of a work whose ranks are in a range (both ends inside), each once, the commonest first.
   */
  wordsOf(work: number, range: { readonly first: number; readonly last: number }): string[] {
    let words = this.#sorted.get(work);
    if (words === undefined) {
      words = [...this.#counts[work]!.keys()].sort((a, b) => this.#rank(a) - this.#rank(b));
      this.#sorted.set(work, words);
    }
    return words.slice(this.#numBelow(words, range.first), this.#numBelow(words, Math.floor(range.last) + 1));
  }

  /** Returns whether a work uses a word (lower case). */
  has(work: number, word: string): boolean {
    return this.#counts[work]!.has(word);
  }

  /**
   * Returns the other works, the one that uses the most alike words first: by the cosine of their tf-idf
   * weights.
   */
  othersByLikeness(work: number): readonly number[] {
    const known = this.#alike.get(work);
    if (known !== undefined) return known;
    const mine = this.#vectors[work]!;
    const likeness = this.#vectors.map((vector) => dot(vector, mine));
    const others = [...likeness.keys()].filter((other) => other !== work);
    // The sort is stable: of two alike, the first one comes first.
    others.sort((a, b) => likeness[b]! - likeness[a]!);
    this.#alike.set(work, others);
    return others;
  }

  #rank(word: string): number {
    return this.rankOf.get(word)!;
  }

  /** Returns the number of some sorted words that have a rank below `rank`. */
  #numBelow(words: readonly string[], rank: number): number {
    let [low, high] = [0, words.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#rank(words[middle]!) < rank) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Returns float64 vectors of length 1 (0 for a work of words that all use), one entry for each word. */
  #weigh(): Float64Array[] {
    const numWorksWith = new Float64Array(this.rankOf.size);
    for (const counts of this.#counts) {
      for (const word of counts.keys()) numWorksWith[this.rankOf.get(word)!]! += 1;
    }
    return this.#counts.map((counts) => {
      const vector = new Float64Array(this.rankOf.size);
      for (const [word, count] of counts) {
        const rank = this.rankOf.get(word)!;
        vector[rank] = (1 + Math.log(count)) * Math.log(this.#counts.length / numWorksWith[rank]!);
      }
      const norm = Math.sqrt(dot(vector, vector));
      return norm === 0 ? vector : vector.map((x) => x / norm);
    });
  }
}

function dot(a: Float64Array, b: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
}

function countWords(sentences: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const sentence of sentences) {
    for (const [word] of sentence.toLowerCase().matchAll(/\p{L}+/gu)) {
      counts.set(word, (counts.get(word) ?? 0) + 1);
    }
  }
  return counts;
}
