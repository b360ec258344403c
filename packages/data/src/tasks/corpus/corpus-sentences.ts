import { DataError } from '@mtl/errors';
import { createSentenceSplitter } from '../../corpora/sentence-splitter.js';
import type { RandomState } from '../../random/random-state.js';
import { CorpusWords } from './corpus-words.js';

/** A sentence and its place. */
export interface CorpusPlace {
  readonly work: number;
  readonly sentence: number;
}

// Shorter sentences say too little to tell where they come from; longer ones fill a sequence by themselves.
const shortest = 40;
const longest = 240;
// Sentences of one work that are at least so far apart do not follow each other in any sense.
const farApart = 12;
// Works shorter than this have no two sentences far apart.
const fewestSentences = 2 * farApart + 8;

/** Works (documents of a corpus) as sentences, from which tasks draw. */
export class CorpusSentences {
  readonly works: readonly (readonly string[])[];
  readonly #random: RandomState;
  #words: CorpusWords | undefined;

  constructor(options: { readonly works: readonly (readonly string[])[]; readonly random: RandomState }) {
    this.works = options.works;
    this.#random = options.random;
  }

  /**
   * A place with `before` sentences of the work before it and `after` behind it, of which all have a fair
   * length.
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

  /** A sentence of fair length in the same work, far from a place. */
  farFrom({ work, sentence }: CorpusPlace): string {
    const sentences = this.works[work]!;
    const far = sentences.filter((text, i) => Math.abs(i - sentence) >= farApart && isFair(text));
    return far[this.#random.randint(0, far.length)]!;
  }

  /** A sentence of fair length in another work. */
  elsewhere({ work }: CorpusPlace): string {
    for (;;) {
      const other = this.run({ before: 0, after: 0 });
      if (other.work !== work) return this.at(other);
    }
  }

  /** What words the works use; counted when first asked for. */
  get words(): CorpusWords {
    this.#words ??= new CorpusWords(this.works);
    return this.#words;
  }

  /** One of the third of the other works that use the least alike words. */
  unlikeWork({ work }: CorpusPlace): number {
    const others = this.words.othersByLikeness(work);
    return others[this.#random.randint(Math.ceil((2 * others.length) / 3), others.length)]!;
  }

  /** A place of `count` sentences of a work that all have a fair length. */
  runOf(work: number, count: number): CorpusPlace {
    const sentences = this.works[work]!;
    for (;;) {
      const sentence = this.#random.randint(0, sentences.length - count + 1);
      if (sentences.slice(sentence, sentence + count).every(isFair)) return { work, sentence };
    }
  }

  /** `count` sentences from a place on. */
  textAt({ work, sentence }: CorpusPlace, count: number): string {
    return this.works[work]!.slice(sentence, sentence + count).join(' ');
  }

  /** The sentence at a place, or `distance` sentences behind it. */
  at({ work, sentence }: CorpusPlace, distance = 0): string {
    return this.works[work]![sentence + distance]!;
  }
}

function isFair(text: string): boolean {
  return text.length >= shortest && text.length <= longest;
}

/**
 * Cuts documents into sentences, leaves out short documents and those without enough sentences of a fair
 * length. Throws `MTL_DATA_TOO_FEW_DOCUMENTS`.
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

// The longest run that a task draws: an article of five sentences with one on each side.
const longestRun = 7;

/** Whether there is a fair run to draw, and from each of its places a fair sentence far away. */
function hasFairRuns(sentences: readonly string[]): boolean {
  const fair = sentences.map(isFair);
  const run = fair.some(
    (_, i) => i + longestRun <= fair.length && fair.slice(i, i + longestRun).every(Boolean),
  );
  return run && fair.every((_, place) => fair.some((isOne, i) => isOne && Math.abs(i - place) >= farApart));
}
