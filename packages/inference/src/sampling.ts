import { MtlError } from '@mtl/errors';
import {
  checkOptions,
  groupOption,
  type OptionCheck,
  type OptionChecks,
  optionThat,
  wholeNumberOption,
} from '@mtl/errors/options';

/**
 * How the next token is chosen. The settings apply in this order, as in the transformers library:
 * temperature, top-k, top-p.
 */
export interface Sampling {
  /**
   * The value by which the logits are divided. 0 means that the most probable token is always chosen.
   * Default: 1.
   */
  readonly temperature?: number;
  /**
   * k: only the k most probable tokens are kept, and tokens that are as probable as the k-th token. Default:
   * all tokens.
   */
  readonly topK?: number;
  /**
   * p: only the smallest set of most probable tokens whose probabilities sum to p or more is kept (Holtzman
   * et al. 2020). Default: 1, which keeps all tokens.
   */
  readonly topP?: number;
}

const numberThat = (expected: string, accepts: (value: number) => boolean): OptionCheck<false> =>
  optionThat(expected, (value) => typeof value === 'number' && accepts(value));

const checks: OptionChecks<Sampling> = {
  temperature: numberThat(
    'a number: 0 (the most probable token) or more',
    (value) => value >= 0 && value < Number.POSITIVE_INFINITY,
  ),
  topK: wholeNumberOption(1),
  topP: numberThat('a number above 0, at most 1', (value) => value > 0 && value <= 1),
};
const code = 'MTL_SAMPLING';

/** Checks an option whose value is a `Sampling`. */
export const samplingOption: OptionCheck<false> = {
  isRequired: false,
  check: (value, { path }) => groupOption(checks, { of: 'sampling' }).check(value, { path, code }),
};

/** Checks the values. @throws ConfigurationError MTL_SAMPLING */
export function checkSampling(sampling: Sampling): void {
  checkOptions(sampling, { of: 'sampling', code, checks });
}

/** Returns the index of the largest value. If several values are the largest, returns the first index. */
function argmax(values: Float32Array): number {
  let best = 0;
  for (let index = 1; index < values.length; index++) {
    if (values[index]! > values[best]!) best = index;
  }
  return best;
}

/** Returns the natural logarithm of a token's probability, given the logits [V]. Computed in float64. */
export function logProbability(logits: Float32Array, token: number): number {
  const maximum = logits[argmax(logits)]!;
  let sum = 0;
  for (const value of logits) sum += Math.exp(value - maximum);
  // the difference must be computed first: if the logarithm were added to a large maximum, it would lose
  // digits
  return logits[token]! - maximum - Math.log(sum);
}

/**
 * Returns the index of the largest logit. If several logits are the largest, returns the first index.
 *
 * @throws MtlError MTL_LOGITS_NOT_FINITE if a logit is NaN, or if the logits do not define a distribution:
 *   -Infinity is allowed and means an impossible token, but not all logits may be -Infinity, and no logit may
 *   be +Infinity
 */
function mostProbable(logits: Float32Array): number {
  let best = 0;
  let hasNan = false;
  for (let token = 0; token < logits.length; token++) {
    const logit = logits[token]!;
    if (logit > logits[best]!) best = token;
    else if (Number.isNaN(logit)) hasNan = true;
  }
  if (!hasNan && Number.isFinite(logits[best])) return best;
  throw new MtlError('MTL_LOGITS_NOT_FINITE', 'the model computes logits that are not numbers', {
    remedy: 'check the weights; float32 or bfloat16 compute has a wider range than float16',
  });
}

/**
 * Returns the probabilities after temperature, top-k and top-p as float64 [V] with sum 1. Dropped tokens have
 * the probability 0. Among equally probable tokens, top-p keeps the tokens with smaller ids.
 */
export function samplingProbabilities(logits: Float32Array, sampling: Sampling): Float64Array {
  return probabilitiesFrom(logits, { sampling, best: argmax(logits) });
}

function probabilitiesFrom(
  logits: Float32Array,
  { sampling, best }: { readonly sampling: Sampling; readonly best: number },
): Float64Array {
  const { temperature = 1, topK = logits.length, topP = 1 } = sampling;
  const probabilities = new Float64Array(logits.length);
  if (temperature === 0) {
    probabilities[best] = 1;
    return probabilities;
  }
  const maximum = logits[best]!;
  const ranked = new RankedLogits(logits, maximum);
  const smallest = topK < logits.length ? ranked.at(topK - 1) : Number.NEGATIVE_INFINITY;
  const computeWeight = (logit: number): number =>
    logit < smallest ? 0 : Math.exp((logit - maximum) / temperature);
  let sum = 0;
  for (let token = 0; token < logits.length; token++) {
    const weight = computeWeight(logits[token]!);
    probabilities[token] = weight;
    sum += weight;
  }
  if (topP < 1) {
    sum = keepNucleus(probabilities, { logits, ranked, target: topP * sum, computeWeight });
  }
  for (let token = 0; token < probabilities.length; token++) probabilities[token]! /= sum;
  return probabilities;
}

/**
 * Logits in descending order. Sorting 50,000 values takes several milliseconds, but top-k and top-p usually
 * read only a few of the largest. The largest are therefore sorted first, and the remaining values only if
 * they are read.
 */
class RankedLogits {
  readonly #logits: Float32Array;
  readonly #maximum: number;
  /** The largest logits or all logits, in ascending order. */
  #sorted = new Float32Array(0);

  constructor(logits: Float32Array, maximum: number) {
    this.#logits = logits;
    this.#maximum = maximum;
  }

  /** Returns the logit with the given rank. Rank 0 is the largest. */
  at(rank: number): number {
    if (rank >= this.#sorted.length) this.#sort(rank);
    return this.#sorted[this.#sorted.length - 1 - rank]!;
  }

  #sort(rank: number): void {
    // tokens whose probability is below e^-8 times the highest probability are rarely requested
    const largest = this.#logits.filter((logit) => logit >= this.#maximum - 8);
    this.#sorted = (rank < largest.length ? largest : Float32Array.from(this.#logits)).sort();
  }
}

/**
 * Keeps the largest weights whose sum reaches `target`, and sets all other weights to zero. Returns the sum
 * of the kept weights.
 */
function keepNucleus(
  weights: Float64Array,
  options: {
    logits: Float32Array;
    ranked: RankedLogits;
    target: number;
    computeWeight(logit: number): number;
  },
): number {
  const { logits, ranked, target, computeWeight } = options;
  let sum = 0;
  let numKept = 0;
  while (sum < target && numKept < logits.length) {
    sum += computeWeight(ranked.at(numKept));
    numKept += 1;
  }
  const last = ranked.at(numKept - 1);
  let numEqual = 0;
  for (let rank = numKept - 1; rank >= 0 && ranked.at(rank) === last; rank--) numEqual += 1;
  for (let token = 0; token < logits.length; token++) {
    const logit = logits[token]!;
    if (logit > last) continue;
    if (logit === last && numEqual > 0) numEqual -= 1;
    else weights[token] = 0;
  }
  return sum;
}

/**
 * Samples a token from the distribution that follows from logits [V] and `sampling`. `uniform` must be a
 * random number in [0, 1).
 */
export function sampleToken(logits: Float32Array, sampling: Sampling, uniform: number): number {
  const best = mostProbable(logits);
  if (sampling.temperature === 0) return best;
  const probabilities = probabilitiesFrom(logits, { sampling, best });
  let rest = uniform;
  let chosen = 0;
  for (let token = 0; token < probabilities.length; token++) {
    const probability = probabilities[token]!;
    if (probability === 0) continue;
    chosen = token;
    rest -= probability;
    if (rest < 0) break;
  }
  // rounding may leave a remainder of the probability, which belongs to the last possible token
  return chosen;
}
