import { normalizeWeights, roundHalfToEven } from '../python/numbers.js';
import type { RandomState } from '../random/random-state.js';
import type { MaskingOptions } from './masking-options.js';
import type { MaskingVocabulary } from './masking-vocabulary.js';

// A candidate is a word (or a token, without whole-word masking); an n-gram is n candidates in a row.

const geometricProbability = 0.2;

/** The next replacement of a masked token `label`; draws from `random`. */
export type Replace = (random: RandomState, label: number) => number;

/**
 * Megatron's choice of masked tokens, draw for draw: candidates in shuffled order, an n-gram at each, as long
 * as it fits the number of tokens to mask. Arrays are kept from sample to sample: masking allocates nothing.
 */
export class TokenMasker {
  /** int32: where tokens were masked, ascending; the first `numMasked` count. */
  readonly positions: Int32Array;
  /** int32: what stood there. */
  readonly labels: Int32Array;
  numMasked = 0;
  readonly #vocabulary: MaskingVocabulary;
  readonly #options: MaskingOptions;
  /** P(length <= n) for n = 1, 2, ... */
  readonly #cumulative: Float64Array;
  /** Positions of the tokens that may be masked. */
  readonly #members: Int32Array;
  /** First member of each candidate, and the end of the last one. */
  readonly #firstMembers: Int32Array;
  readonly #order: Int32Array;
  /** By position: 1 where masked. */
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
   * Masks some of the first `length` tokens in place. `targetLength` is that of the sample in the mapping.
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
    // Megatron shuffles once more here; nothing is drawn from the stream of this sample afterwards.
  }

  #findCandidates(tokens: Int32Array, length: number): number {
    const { classification, separator, continues } = this.#vocabulary;
    const { wholeWords } = this.#options;
    let numMembers = 0;
    let numCandidates = 0;
    for (let position = 0; position < length; position++) {
      const token = tokens[position]!;
      if (token === classification || token === separator) continue;
      // A continuation token joins the word before it, even one on the other side of a separator.
      if (!(wholeWords && numCandidates > 0 && continues[token] === 1)) {
        this.#firstMembers[numCandidates++] = numMembers;
      }
      this.#members[numMembers++] = position;
    }
    this.#firstMembers[numCandidates] = numMembers;
    return numCandidates;
  }

  /**
   * Draws a length and shortens it until the n-gram fits; the end of its members, or their start when none
   * fits.
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

/** P(length <= n): lengths are drawn with probabilities proportional to 1/n, or to those in reverse. */
function cumulativeProbabilities({ maximumNgram, favorLongerNgrams }: MaskingOptions): Float64Array {
  const inverse = Array.from({ length: maximumNgram }, (_, i) => 1 / (i + 1));
  let probabilities = normalizeWeights(inverse);
  if (favorLongerNgrams) probabilities.reverse();
  // NumPy normalises twice more: Megatron for the n-grams of this candidate, choice() the running sum.
  probabilities = normalizeWeights(probabilities);
  let sum = 0;
  const running = Float64Array.from(probabilities, (probability) => {
    sum += probability;
    return sum;
  });
  return running.map((bound) => bound / sum);
}
