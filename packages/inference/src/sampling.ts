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
 * The way in which the next token is chosen. Applied in this order: temperature, top-k, top-p (as
 * transformers does).
 */
export interface Sampling {
  /** The number that logits are divided by; 0 takes the most probable token. Default 1. */
  readonly temperature?: number;
  /** Only the k most probable tokens, ties with the k-th included. Default: all. */
  readonly topK?: number;
  /**
   * The fewest most probable tokens whose probabilities sum to p or more (Holtzman et al. 2020). Default 1:
   * all.
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

/** The check of an option with a `Sampling`. */
export const samplingOption: OptionCheck<false> = {
  isRequired: false,
  check: (value, { path }) => groupOption(checks, { of: 'sampling' }).check(value, { path, code }),
};

/** Refuses invalid values. @throws ConfigurationError MTL_SAMPLING */
export function checkSampling(sampling: Sampling): void {
  checkOptions(sampling, { of: 'sampling', code, checks });
}

/** Returns the position of the largest value, the first of equal ones. */
function argmax(values: Float32Array): number {
  let best = 0;
  for (let index = 1; index < values.length; index++) {
    if (values[index]! > values[best]!) best = index;
  }
  return best;
}

/** Returns the natural logarithm of the probability that logits [V] give to a token, in float64. */
export function logProbability(logits: Float32Array, token: number): number {
  const maximum = logits[argmax(logits)]!;
  let sum = 0;
  for (const value of logits) sum += Math.exp(value - maximum);
  // the difference first: next to a large maximum the logarithm would lose its digits
  return logits[token]! - maximum - Math.log(sum);
}

function checkFinite(logits: Float32Array): void {
  let hasNan = false;
  for (const value of logits) hasNan ||= Number.isNaN(value);
  // -Infinity is an impossible token; logits that are all -Infinity, or include +Infinity, are no
  // distribution
  if (!hasNan && Number.isFinite(logits[argmax(logits)])) return;
  throw new MtlError('MTL_LOGITS_NOT_FINITE', 'the model computes logits that are not numbers', {
    remedy: 'check the weights; float32 or bfloat16 compute has a wider range than float16',
  });
}

/**
 * Returns the probabilities after temperature, top-k and top-p, float64 [V] that sum to 1, dropped tokens 0.
 * Among equally probable tokens top-p prefers smaller ids.
 */
export function samplingProbabilities(logits: Float32Array, sampling: Sampling): Float64Array {
  const { temperature = 1, topK = logits.length, topP = 1 } = sampling;
  const probabilities = new Float64Array(logits.length);
  const best = argmax(logits);
  if (temperature === 0) {
    probabilities[best] = 1;
    return probabilities;
  }
  const maximum = logits[best]!;
  // a sort of plain numbers takes 3 ms for 50,000 numbers; a sort with a comparison function takes several
  // times as long
  const sorted = topK < logits.length || topP < 1 ? Float32Array.from(logits).sort().reverse() : undefined;
  const smallest = topK < logits.length ? sorted![topK - 1]! : Number.NEGATIVE_INFINITY;
  const computeWeight = (logit: number): number =>
    logit < smallest ? 0 : Math.exp((logit - maximum) / temperature);
  let sum = 0;
  for (let token = 0; token < logits.length; token++) {
    const weight = computeWeight(logits[token]!);
    probabilities[token] = weight;
    sum += weight;
  }
  if (topP < 1) {
    sum = keepNucleus(probabilities, { logits, sorted: sorted!, target: topP * sum, computeWeight });
  }
  for (let token = 0; token < probabilities.length; token++) probabilities[token]! /= sum;
  return probabilities;
}

/** Clears all weights except the largest weights that together reach `target`; returns their sum. */
function keepNucleus(
  weights: Float64Array,
  options: {
    logits: Float32Array;
    sorted: Float32Array;
    target: number;
    computeWeight(logit: number): number;
  },
): number {
  const { logits, sorted, target, computeWeight } = options;
  let sum = 0;
  let numKept = 0;
  while (sum < target && numKept < sorted.length) {
    sum += computeWeight(sorted[numKept]!);
    numKept += 1;
  }
  const last = sorted[numKept - 1]!;
  let numEqual = 0;
  for (let rank = numKept - 1; rank >= 0 && sorted[rank] === last; rank--) numEqual += 1;
  for (let token = 0; token < logits.length; token++) {
    const logit = logits[token]!;
    if (logit > last) continue;
    if (logit === last && numEqual > 0) numEqual -= 1;
    else weights[token] = 0;
  }
  return sum;
}

/** Returns the token at `uniform`, in [0, 1), of the distribution that `sampling` derives from logits [V]. */
export function sampleToken(logits: Float32Array, sampling: Sampling, uniform: number): number {
  checkFinite(logits);
  if (sampling.temperature === 0) return argmax(logits);
  const probabilities = samplingProbabilities(logits, sampling);
  let rest = uniform;
  let chosen = 0;
  for (let token = 0; token < probabilities.length; token++) {
    const probability = probabilities[token]!;
    if (probability === 0) continue;
    chosen = token;
    rest -= probability;
    if (rest < 0) break;
  }
  // if rounding leaves a rest: the last token with a probability
  return chosen;
}
