import { createSentenceSplitter, type RandomState } from '@mtl/data';
import { DataError } from '@mtl/errors';

/** The position of a sentence: its work, and its index in the work. */
interface CorpusPlace {
  readonly work: number;
  readonly sentence: number;
}

// shorter sentences do not show from which work they come; longer sentences would fill a complete sequence
const shortest = 40;
const longest = 240;
// The minimum distance, in sentences, between two sentences drawn from the same work. Closer sentences may
// continue each other.
const farApart = 12;
// The minimum number of sentences in a work; in shorter works, no two sentences are far enough apart.
const fewestSentences = 2 * farApart + 8;

/** The sentences of works (documents of a corpus), from which tasks are drawn. */
export class CorpusSentences {
  readonly works: readonly (readonly string[])[];
  readonly #random: RandomState;
  #words: CorpusWords | undefined;

  constructor(options: { readonly works: readonly (readonly string[])[]; readonly random: RandomState }) {
    this.works = options.works;
    this.#random = options.random;
  }

  /**
   * Returns a random position with `before` sentences of the work before it and `after` sentences after it.
   * All these sentences have an acceptable length.
   */
  run({ before, after }: { readonly before: number; readonly after: number }): CorpusPlace {
    for (;;) {
      const work = this.#random.randint(0, this.works.length);
      const sentences = this.works[work]!;
      const sentence = this.#random.randint(before, sentences.length - after);
      const part = sentences.slice(sentence - before, sentence + after + 1);
      if (part.every(isFair)) return { work, sentence };
    }
  }

  /** Returns a random sentence of acceptable length from the same work, far from the given position. */
  farFrom({ work, sentence }: CorpusPlace): string {
    const sentences = this.works[work]!;
    const far = sentences.filter((text, i) => Math.abs(i - sentence) >= farApart && isFair(text));
    return far[this.#random.randint(0, far.length)]!;
  }

  /** Returns a random sentence of acceptable length from a work that is not the given work. */
  elsewhere({ work }: CorpusPlace): string {
    for (;;) {
      const other = this.run({ before: 0, after: 0 });
      if (other.work !== work) return this.at(other);
    }
  }

  /** The words of the works. They are counted at the first use. */
  get words(): CorpusWords {
    this.#words ??= new CorpusWords(this.works);
    return this.#words;
  }

  /** Returns a random work among the third of the works that is least similar to the given work. */
  unlikeWork({ work }: CorpusPlace): number {
    const others = this.words.othersByLikeness(work);
    return others[this.#random.randint(Math.ceil((2 * others.length) / 3), others.length)]!;
  }

  /**
   * Returns a random position in `work` at which `count` consecutive sentences of acceptable length begin.
   */
  chooseRun(work: number, count: number): CorpusPlace {
    const sentences = this.works[work]!;
    for (;;) {
      const sentence = this.#random.randint(0, sentences.length - count + 1);
      if (sentences.slice(sentence, sentence + count).every(isFair)) return { work, sentence };
    }
  }

  /** Returns `count` sentences that begin at a position, joined into one string. */
  textAt({ work, sentence }: CorpusPlace, count: number): string {
    return this.works[work]!.slice(sentence, sentence + count).join(' ');
  }

  /** Returns the sentence at a position, or `distance` sentences after it. */
  at({ work, sentence }: CorpusPlace, distance = 0): string {
    return this.works[work]![sentence + distance]!;
  }
}

function isFair(text: string): boolean {
  return text.length >= shortest && text.length <= longest;
}

/**
 * Splits documents into sentences, and omits documents that are too short or have too few sentences of an
 * acceptable length. Throws `MTL_DATA_TOO_FEW_DOCUMENTS` if fewer than `fewestWorks` remain.
 */
export function splitWorks(documents: readonly string[], fewestWorks: number): string[][] {
  const split = createSentenceSplitter();
  const works = documents
    .map((text) => split(text).map((sentence) => sentence.replaceAll(/\s+/g, ' ')))
    .filter((sentences) => sentences.length >= fewestSentences && hasFairRuns(sentences));
  if (works.length >= fewestWorks) return works;
  throw new DataError(
    'MTL_DATA_TOO_FEW_DOCUMENTS',
    `${works.length} of ${documents.length} documents are long enough for tasks`,
    {
      expected: `${fewestWorks} or more documents of ${fewestSentences} sentences, most of ${shortest} to ${longest} characters`,
      remedy: 'pass whole works as documents, not their paragraphs',
    },
  );
}

// The maximum number of consecutive sentences that a task needs: an article of five sentences with one
// sentence on each side.
const longestRun = 7;

/**
 * Returns true if a work has enough consecutive sentences of acceptable length and, for every position, a
 * sentence of acceptable length that is far from the position.
 */
function hasFairRuns(sentences: readonly string[]): boolean {
  const fair = sentences.map(isFair);
  const run = fair.some(
    (_, i) => i + longestRun <= fair.length && fair.slice(i, i + longestRun).every(Boolean),
  );
  return run && fair.every((_, place) => fair.some((isOne, i) => isOne && Math.abs(i - place) >= farApart));
}

/** Word statistics of works: how common each word is, and which works use similar words. */
export class CorpusWords {
  /**
   * Each word's rank by its number of occurrences in all works. The most common word has rank 0. Equally
   * common words are in alphabetical order.
   */
  readonly rankOf: ReadonlyMap<string, number>;
  readonly #counts: readonly ReadonlyMap<string, number>[];
  readonly #vectors: readonly Float64Array[];
  readonly #sorted = new Map<number, readonly string[]>();
  readonly #alike = new Map<number, readonly number[]>();

  /** @param works the sentences of each work */
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
   * Returns the words of a work whose ranks are from `first` to `last`, both included. Each word occurs once;
   * the most common word comes first.
   */
  listWords(work: number, range: { readonly first: number; readonly last: number }): string[] {
    let words = this.#sorted.get(work);
    if (words === undefined) {
      words = [...this.#counts[work]!.keys()].sort((a, b) => this.#rank(a) - this.#rank(b));
      this.#sorted.set(work, words);
    }
    return words.slice(this.#numBelow(words, range.first), this.#numBelow(words, Math.floor(range.last) + 1));
  }

  /** Returns true if a work uses `word`, given in lower case. */
  has(work: number, word: string): boolean {
    return this.#counts[work]!.has(word);
  }

  /**
   * Returns the other works, sorted by the cosine between their tf-idf vectors and the vector of this work.
   * The most similar work is first.
   */
  othersByLikeness(work: number): readonly number[] {
    const known = this.#alike.get(work);
    if (known !== undefined) return known;
    const mine = this.#vectors[work]!;
    const likeness = this.#vectors.map((vector) => dot(vector, mine));
    const others = [...likeness.keys()].filter((other) => other !== work);
    // the sort is stable: equally similar works keep their order
    others.sort((a, b) => likeness[b]! - likeness[a]!);
    this.#alike.set(work, others);
    return others;
  }

  #rank(word: string): number {
    return this.rankOf.get(word)!;
  }

  /** Returns how many of `words`, which are sorted by rank, have a rank below `rank`. */
  #numBelow(words: readonly string[], rank: number): number {
    let [low, high] = [0, words.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#rank(words[middle]!) < rank) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /**
   * Returns a float64 tf-idf vector of length 1 for each work, with an entry for each word. The vector is
   * zero if the work contains only words that all works use.
   */
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

// The range of ranks of words that may be replaced. More common words do not show what a text is about. Rarer
// words consist of several tokens in a small vocabulary, so a model could find them without knowing their
// meaning.
const ranks = { first: 150, behind: 2500 };
// Limits for the ratio of the ranks of the old and the new word, in tenths so that they are exact. They
// ensure that a model cannot find the answer by choosing the rarer word.
const equallyCommon = { least: 7, most: 14 };
// How often to try, at most, to find a text with a replaceable word; prose without such a word is rare.
const mostAttempts = 1000;

/** A text with a replaced word, the new word, and its position (UTF-16 units). */
interface ReplacedWord {
  readonly text: string;
  readonly word: string;
  readonly start: number;
}

/**
 * Replaces a word in a work's text. The new word is about as common as the old word. The work itself does not
 * use the new word, but one of the least similar works does. Returns undefined if no word can be replaced.
 */
export function replaceWord(options: {
  readonly text: string;
  readonly place: CorpusPlace;
  readonly sentences: CorpusSentences;
  readonly random: RandomState;
}): ReplacedWord | undefined {
  const { text, place, sentences, random } = options;
  const { words } = sentences;
  // candidates are lower-case words that do not begin a sentence, so that capital letters do not show the
  // replaced word
  const holes = [...text.matchAll(/(?<=\p{Ll}[,;]? )\p{Ll}{4,}(?=[ ,;.])/gu)].filter(
    ([hole]) => words.has(place.work, hole) && hasRank(words.rankOf.get(hole)!),
  );
  if (holes.length === 0) return undefined;
  const hole = holes[random.randint(0, holes.length)]!;
  const strangers = strangersFor({ place, word: hole[0], sentences });
  if (strangers.length === 0) return undefined;
  const word = strangers[random.randint(0, strangers.length)]!;
  const end = hole.index + hole[0].length;
  return { text: text.slice(0, hole.index) + word + text.slice(end), word, start: hole.index };
}

/**
 * Calls `draw` until it returns a result. `draw` returns undefined if its random choice was not usable.
 * Throws `MTL_DATA_TOO_FEW_DOCUMENTS` after `mostAttempts` calls.
 */
export function drawUntilReplaced<Drawn>(draw: () => Drawn | undefined): Drawn {
  for (let attempt = 0; attempt < mostAttempts; attempt++) {
    const drawn = draw();
    if (drawn !== undefined) return drawn;
  }
  throw new DataError(
    'MTL_DATA_TOO_FEW_DOCUMENTS',
    `in ${mostAttempts} texts no word could be replaced by an equally common one of another work`,
    {
      expected: `works that use different words among the ${ranks.first + 1}th to ${ranks.behind}th commonest`,
      remedy: 'pass works on different subjects, or more works',
    },
  );
}

/**
 * Returns words that are about as common as the given word. One of the least similar works uses them, but the
 * given work does not.
 */
function strangersFor(options: {
  readonly place: CorpusPlace;
  readonly word: string;
  readonly sentences: CorpusSentences;
}): string[] {
  const { place, word, sentences } = options;
  const { words } = sentences;
  const other = sentences.unlikeWork(place);
  const rank = words.rankOf.get(word)!;
  const first = Math.max(ranks.first, (equallyCommon.least * rank) / 10);
  const last = Math.min(ranks.behind - 1, (equallyCommon.most * rank) / 10);
  return words
    .listWords(other, { first, last })
    .filter((one) => one.length >= 4 && !words.has(place.work, one));
}

function hasRank(rank: number): boolean {
  return rank >= ranks.first && rank < ranks.behind;
}
