import { DataError, UsageError } from '@mtl/errors';
import type { Tokenizer } from '@mtl/tokenizers';
import { normalizeWeights, roundHalfToEven } from '../python/numbers.js';
import type { RandomState } from '../random/random-state.js';

/**
 * How the tokens that a masked language model must predict are chosen. The settings and their defaults are
 * the same as in Megatron's BERT.
 */
export interface MaskingOptions {
  /** The fraction of tokens to mask (`--mask-prob`, default 0.15). */
  readonly probability: number;
  /** The maximum number of consecutive words that are masked together (default 3). */
  readonly maximumNgram: number;
  /** True (default) to mask either all tokens of a word or none. */
  readonly wholeWords: boolean;
  /**
   * True to draw n-gram lengths from a geometric distribution with p = 0.2 (SpanBERT, arXiv 1907.10529, 3.1).
   * Default: false.
   */
  readonly geometric: boolean;
  /** True to prefer longer n-grams. Default: false, which prefers shorter n-grams. */
  readonly favorLongerNgrams: boolean;
}

/** Megatron's masking settings for BERT. */
export const bertMasking: MaskingOptions = {
  probability: 0.15,
  maximumNgram: 3,
  wholeWords: true,
  geometric: false,
  favorLongerNgrams: false,
};

/** Throws `MTL_DATA_MASKING` for settings that cannot work. */
export function checkMasking({ probability, maximumNgram }: MaskingOptions): void {
  if (!(probability > 0 && probability < 1)) {
    throw new UsageError('MTL_DATA_MASKING', `the masking probability ${probability} is not usable`, {
      expected: 'a number above 0 and below 1, such as 0.15',
      exitCode: 2,
    });
  }
  if (!Number.isInteger(maximumNgram) || maximumNgram < 1 || maximumNgram > 100) {
    throw new UsageError('MTL_DATA_MASKING', `n-grams of up to ${maximumNgram} words are not usable`, {
      expected: 'an integer from 1 to 100',
      exitCode: 2,
    });
  }
}

/** The vocabulary properties that masking needs, as plain data for worker threads. */
export interface MaskingVocabulary {
  /** The number of ids: the largest id plus one. */
  readonly size: number;
  readonly classification: number;
  readonly separator: number;
  readonly mask: number;
  readonly padding: number;
  /** uint8 [size]: 1 for tokens that continue a word (`##`). */
  readonly continues: Uint8Array;
  /** int32, ascending: the valid ids, from which random replacements are drawn. */
  readonly ids: Int32Array;
}

/**
 * Reads a WordPiece tokenizer's vocabulary. Throws `MTL_DATA_SPECIAL_TOKEN` if a special token is missing.
 */
export function maskingVocabulary(tokenizer: Tokenizer): MaskingVocabulary {
  const { tokenIds, vocabularySize: size, name } = tokenizer;
  if (tokenIds === undefined) {
    throw new DataError('MTL_DATA_SPECIAL_TOKEN', `${name} has no list of tokens to find [MASK] in`, {
      expected: 'a WordPiece vocabulary with [CLS], [SEP], [MASK] and [PAD]',
      remedy:
        'use BertWordPieceLowerCase or BertWordPieceCase with --vocab-file, or HuggingFaceTokenizer with a ' +
        'tokenizer.json of mtl data train-tokenizer --type wordpiece',
    });
  }
  const continues = new Uint8Array(size);
  for (const [token, id] of tokenIds) if (token.startsWith('##')) continues[id] = 1;
  return {
    size,
    classification: specialTokenId(tokenizer, '[CLS]'),
    separator: specialTokenId(tokenizer, '[SEP]'),
    mask: specialTokenId(tokenizer, '[MASK]'),
    padding: specialTokenId(tokenizer, '[PAD]'),
    continues,
    ids: Int32Array.from(new Set(tokenIds.values())).sort(),
  };
}

/** Returns the id of the given token. Throws `MTL_DATA_SPECIAL_TOKEN` if the vocabulary lacks it. */
export function specialTokenId({ tokenIds, name }: Tokenizer, token: string): number {
  const id = tokenIds?.get(token);
  if (id !== undefined) return id;
  const near = [...(tokenIds?.keys() ?? [])].filter((known) => /^(\[[A-Z]|<[a-z|/])/.test(known)).slice(0, 8);
  throw new DataError('MTL_DATA_SPECIAL_TOKEN', `the vocabulary of ${name} has no token ${token}`, {
    expected: `${token}; its special tokens are ${near.length === 0 ? 'none' : near.join(' ')}`,
    remedy: `add a line ${token} to the vocabulary, or train one with mtl data train-tokenizer --type wordpiece`,
  });
}

// In this file, a candidate is a word (or a token, if whole-word masking is off), and an n-gram is n
// consecutive candidates.

const geometricProbability = 0.2;

/**
 * Returns the replacement for a masked token whose original value is `label`. Random numbers come from
 * `random`.
 */
type Replace = (random: RandomState, label: number) => number;

/**
 * Chooses masked tokens with the same random draws as Megatron. For each candidate, in shuffled order, it
 * masks an n-gram unless this would exceed the number of tokens to mask. The arrays are reused for all
 * samples, so masking does not allocate memory.
 */
export class TokenMasker {
  /**
   * int32: the positions of the masked tokens, in ascending order. Only the first `numMasked` entries are
   * valid.
   */
  readonly positions: Int32Array;
  /** int32: the original tokens at `positions`. */
  readonly labels: Int32Array;
  numMasked = 0;
  readonly #vocabulary: MaskingVocabulary;
  readonly #options: MaskingOptions;
  /** The cumulative distribution: entry n - 1 is the probability that an n-gram has at most n candidates. */
  readonly #cumulative: Float64Array;
  /** The positions of the tokens that may be masked, candidate by candidate. */
  readonly #members: Int32Array;
  /** The index of each candidate's first token in `#members`, followed by the end of the last candidate. */
  readonly #firstMembers: Int32Array;
  readonly #order: Int32Array;
  /** For each position, 1 if the position is masked, else 0. */
  readonly #isMasked: Uint8Array;
  readonly #labelAt: Int32Array;

  constructor(options: { vocabulary: MaskingVocabulary; masking: MaskingOptions; maximumLength: number }) {
    const { vocabulary, masking, maximumLength } = options;
    this.#vocabulary = vocabulary;
    this.#options = masking;
    this.#cumulative = cumulativeProbabilities(masking);
    const room = () => new Int32Array(maximumLength + 1);
    this.positions = room();
    this.labels = room();
    this.#members = room();
    this.#firstMembers = room();
    this.#order = room();
    this.#labelAt = room();
    this.#isMasked = new Uint8Array(maximumLength + 1);
  }

  /**
   * Masks some of the first `length` tokens in place. `targetLength` is the target length that the mapping
   * gives for the sample.
   */
  mask(options: {
    readonly tokens: Int32Array;
    readonly length: number;
    readonly targetLength: number;
    readonly random: RandomState;
    readonly replace: Replace;
  }): void {
    const { tokens, length, targetLength, random, replace } = options;
    const numCandidates = this.#findCandidates(tokens, length);
    const { probability } = this.#options;
    const limit = Math.min(probability * targetLength, Math.max(1, roundHalfToEven(length * probability)));
    const order = this.#order.subarray(0, numCandidates);
    for (let i = 0; i < numCandidates; i++) order[i] = i;
    random.shuffle(order);
    this.#isMasked.fill(0, 0, length);
    let numMasked = 0;
    for (let i = 0; i < numCandidates && numMasked < limit; i++) {
      const first = this.#firstMembers[order[i]!]!;
      const end = this.#fittingEnd({ candidate: order[i]!, numCandidates, room: limit - numMasked, random });
      if (end === first || this.#overlaps(first, end)) continue;
      for (let member = first; member < end; member++) {
        const position = this.#members[member]!;
        const label = tokens[position]!;
        this.#isMasked[position] = 1;
        this.#labelAt[position] = label;
        tokens[position] = replace(random, label);
      }
      numMasked += end - first;
    }
    this.#collect(length);
    // Megatron shuffles once more here. This shuffle can be omitted, because the sample draws no further
    // random numbers
  }

  #findCandidates(tokens: Int32Array, length: number): number {
    const { classification, separator, continues } = this.#vocabulary;
    const { wholeWords } = this.#options;
    let numMembers = 0;
    let numCandidates = 0;
    for (let position = 0; position < length; position++) {
      const token = tokens[position]!;
      if (token === classification || token === separator) continue;
      // a continuation token belongs to the previous word, even if a separator is between them
      if (!(wholeWords && numCandidates > 0 && continues[token] === 1)) {
        this.#firstMembers[numCandidates++] = numMembers;
      }
      this.#members[numMembers++] = position;
    }
    this.#firstMembers[numCandidates] = numMembers;
    return numCandidates;
  }

  /**
   * Draws an n-gram's length and reduces it until the n-gram fits. Returns the index at which the n-gram's
   * tokens end; if no n-gram fits, this is the index at which they start.
   */
  #fittingEnd(options: {
    candidate: number;
    numCandidates: number;
    room: number;
    random: RandomState;
  }): number {
    const { candidate, numCandidates, room, random } = options;
    const first = this.#firstMembers[candidate]!;
    for (let n = this.#drawLength(random); n > 0; n--) {
      const end = this.#firstMembers[Math.min(candidate + n, numCandidates)]!;
      if (end - first <= room) return end;
    }
    return first;
  }

  #drawLength(random: RandomState): number {
    const { geometric, maximumNgram } = this.#options;
    if (geometric) return Math.min(random.geometric(geometricProbability), maximumNgram);
    const drawn = random.double();
    let n = 1;
    while (n < maximumNgram && this.#cumulative[n - 1]! <= drawn) n++;
    return n;
  }

  #overlaps(first: number, end: number): boolean {
    for (let member = first; member < end; member++) {
      if (this.#isMasked[this.#members[member]!] === 1) return true;
    }
    return false;
  }

  #collect(length: number): void {
    let count = 0;
    for (let position = 0; position < length; position++) {
      if (this.#isMasked[position] === 0) continue;
      this.positions[count] = position;
      this.labels[count++] = this.#labelAt[position]!;
    }
    this.numMasked = count;
  }
}

/**
 * Returns the probability that an n-gram has at most n candidates, for each n. The probability of a length n
 * is proportional to 1/n. If longer n-grams are preferred, these probabilities are reversed.
 */
function cumulativeProbabilities({ maximumNgram, favorLongerNgrams }: MaskingOptions): Float64Array {
  const inverse = Array.from({ length: maximumNgram }, (_, i) => 1 / (i + 1));
  let probabilities = normalizeWeights(inverse);
  if (favorLongerNgrams) probabilities.reverse();
  // the weights are normalized twice more to get the same rounding as in Megatron, which normalizes once for
  // the n-grams of a candidate, and once in the running sum of NumPy's choice()
  probabilities = normalizeWeights(probabilities);
  let sum = 0;
  const running = Float64Array.from(probabilities, (probability) => {
    sum += probability;
    return sum;
  });
  return running.map((bound) => bound / sum);
}
