import { ConfigurationError, DataError } from '@mtl/errors';

const radix = 2 ** 26;

/** The words in the training texts, and the size of the vocabulary to learn. */
interface LearnMergesOptions {
  /** The symbols of each distinct word. The arrays are changed in place. */
  readonly words: Int32Array[];
  /** Number of occurrences of each word. */
  readonly counts: readonly number[];
  /** The strings of the initial symbols, by id. Merged symbols are appended. */
  readonly symbols: string[];
  /** The number of symbols at which learning stops. */
  readonly vocabularySize: number;
  /** The minimum number of occurrences of a pair that is merged. */
  readonly minFrequency: number;
  /**
   * The prefix of symbols that continue a word ("##"). When two symbols are merged, it is removed from the
   * second.
   */
  readonly continuingPrefix?: string;
  readonly onProgress?:
    | ((progress: { readonly symbols: number; readonly vocabularySize: number }) => void)
    | undefined;
}

/**
 * Learns a byte-pair encoding (Sennrich 2016): joins the most frequent pair of neighbours until the
 * vocabulary is full. Among equally frequent pairs, the pair with smaller ids is joined first. A merge
 * updates only the counts of words that contain the pair. Returns the merges, as pairs of ids.
 */
export function learnMerges(options: LearnMergesOptions): [left: number, right: number][] {
  const { words, counts, symbols, vocabularySize, minFrequency, continuingPrefix = '', onProgress } = options;
  const ids = new Map(symbols.map((symbol, id) => [symbol, id]));
  const pairs = countPairs(words, counts);
  const heap = new PairHeap();
  for (const candidate of pairs.values()) heap.push({ ...candidate });
  const total = new Map<number, number>();
  for (const { key, count } of pairs.values()) total.set(key, count);
  pairs.clear();
  const merges: [number, number][] = [];
  while (symbols.length < vocabularySize) {
    const top = heap.pop();
    if (top === undefined) break;
    const count = total.get(top.key)!;
    if (top.count !== count) {
      // later merges have changed the pair's count since the pair was pushed, so it is pushed again with its
      // new count
      top.count = count;
      if (count > 0) heap.push(top);
      continue;
    }
    if (count < 1 || count < minFrequency) break;
    const left = Math.floor(top.key / radix);
    const right = top.key % radix;
    const tail = symbols[right]!;
    const text =
      symbols[left]! +
      (continuingPrefix !== '' && tail.startsWith(continuingPrefix)
        ? tail.slice(continuingPrefix.length)
        : tail);
    let merged = ids.get(text);
    if (merged === undefined) {
      merged = symbols.length;
      symbols.push(text);
      ids.set(text, merged);
    }
    merges.push([left, right]);
    applyMerge({ top, left, right, merged, words, counts, total, heap });
    if (symbols.length % 256 === 0) onProgress?.({ symbols: symbols.length, vocabularySize });
  }
  return merges;
}

function countPairs(words: readonly Int32Array[], counts: readonly number[]): Map<number, PairCandidate> {
  const pairs = new Map<number, PairCandidate>();
  for (const [number, word] of words.entries()) {
    for (let i = 1; i < word.length; i++) {
      const key = word[i - 1]! * radix + word[i]!;
      const candidate = pairs.get(key);
      if (candidate === undefined) {
        pairs.set(key, { key, count: counts[number]!, words: [number] });
      } else {
        candidate.count += counts[number]!;
        if (candidate.words[candidate.words.length - 1] !== number) candidate.words.push(number);
      }
    }
  }
  return pairs;
}

function applyMerge(options: {
  top: PairCandidate;
  left: number;
  right: number;
  merged: number;
  words: Int32Array[];
  counts: readonly number[];
  total: Map<number, number>;
  heap: PairHeap;
}): void {
  const { top, left, right, merged, words, counts, total, heap } = options;
  const grown = new Map<number, number[]>();
  for (const number of top.words) {
    const word = words[number]!;
    const count = counts[number]!;
    const change = (key: number, by: number) => {
      total.set(key, (total.get(key) ?? 0) + by * count);
      if (by < 0) return;
      const holders = grown.get(key);
      if (holders === undefined) grown.set(key, [number]);
      else if (holders[holders.length - 1] !== number) holders.push(number);
    };
    let kept = 0;
    for (let i = 0; i < word.length; i++, kept++) {
      if (word[i] !== left || i + 1 >= word.length || word[i + 1] !== right) {
        word[kept] = word[i]!;
        continue;
      }
      if (kept > 0) {
        change(word[kept - 1]! * radix + left, -1);
        change(word[kept - 1]! * radix + merged, 1);
      }
      if (i + 2 < word.length) {
        change(right * radix + word[i + 2]!, -1);
        change(merged * radix + word[i + 2]!, 1);
      }
      word[kept] = merged;
      i++;
    }
    if (kept < word.length) words[number] = word.subarray(0, kept);
  }
  for (const [key, holders] of grown) {
    const count = total.get(key)!;
    if (count > 0) heap.push({ key, count, words: holders });
  }
}

/** A pair of symbols that may be merged. */
interface PairCandidate {
  /** `left * 2^26 + right`. Among equally frequent pairs, the pair with the smaller key comes first. */
  readonly key: number;
  count: number;
  /** The indices of the words that may contain the pair. */
  readonly words: number[];
}

/**
 * A binary heap of candidates. The most frequent pair is first. Among equally frequent pairs, the pair with
 * the smaller key is first.
 */
class PairHeap {
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

/** The texts for training, as an array, a generator, or a stream such as `readDocuments`. */
export type TrainingTexts = Iterable<string> | AsyncIterable<string>;

/** The progress of training a tokenizer. */
export type TrainingProgress =
  | { readonly stage: 'counting'; readonly texts: number; readonly words: number }
  | { readonly stage: 'merging'; readonly symbols: number; readonly vocabularySize: number };

/**
 * Counts the occurrences of each word. The memory that this takes grows with the number of distinct words,
 * not with the length of the texts.
 */
export async function countWords(options: {
  readonly texts: TrainingTexts;
  readonly split: (text: string) => Iterable<string>;
  readonly onProgress?: ((progress: TrainingProgress) => void) | undefined;
}): Promise<Map<string, number>> {
  const { texts, split, onProgress } = options;
  const words = new Map<string, number>();
  let count = 0;
  for await (const text of texts) {
    for (const word of split(text)) words.set(word, (words.get(word) ?? 0) + 1);
    if (++count % 1024 === 0) onProgress?.({ stage: 'counting', texts: count, words: words.size });
  }
  onProgress?.({ stage: 'counting', texts: count, words: words.size });
  return words;
}

/** Rejects a vocabulary size that is too small for the required tokens, or too large. */
export function checkVocabularySize(vocabularySize: number, smallest: number, holds: string): void {
  if (Number.isInteger(vocabularySize) && vocabularySize >= smallest && vocabularySize < 2 ** 24) return;
  throw new ConfigurationError(
    'MTL_DATA_VOCABULARY_SIZE',
    `a vocabulary of ${vocabularySize} cannot be trained`,
    {
      expected: `${smallest} (${holds}) to ${2 ** 24 - 1}`,
    },
  );
}

/** Rejects texts without a single word. */
export function checkWords(words: ReadonlyMap<string, number>): void {
  if (words.size > 0) return;
  throw new DataError('MTL_DATA_EMPTY_CORPUS', 'the files contain no text to train a tokenizer on', {
    remedy: 'check the input files and the JSON key',
  });
}
