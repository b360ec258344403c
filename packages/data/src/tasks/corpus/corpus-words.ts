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

  /** Words of a work, each once, the commonest of all works first. */
  wordsOf(work: number): readonly string[] {
    const known = this.#sorted.get(work);
    if (known !== undefined) return known;
    const rank = (word: string) => this.rankOf.get(word)!;
    const sorted = [...this.#counts[work]!.keys()].sort((a, b) => rank(a) - rank(b));
    this.#sorted.set(work, sorted);
    return sorted;
  }

  /** Whether a work uses a word (lower case). */
  has(work: number, word: string): boolean {
    return this.#counts[work]!.has(word);
  }

  /** The other works, the one that uses the most alike words first: by the cosine of their tf-idf weights. */
  othersByLikeness(work: number): readonly number[] {
    const known = this.#alike.get(work);
    if (known !== undefined) return known;
    const mine = this.#vectors[work]!;
    const likeness = this.#vectors.map((vector) => vector.reduce((sum, x, i) => sum + x * mine[i]!, 0));
    const others = [...likeness.keys()].filter((other) => other !== work);
    // The sort is stable: of two alike, the first one comes first.
    others.sort((a, b) => likeness[b]! - likeness[a]!);
    this.#alike.set(work, others);
    return others;
  }

  /** float64 vectors of length 1 (0 for a work of words that all use), one entry for each word. */
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
      const norm = Math.sqrt(vector.reduce((sum, x) => sum + x * x, 0));
      return norm === 0 ? vector : vector.map((x) => x / norm);
    });
  }
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
