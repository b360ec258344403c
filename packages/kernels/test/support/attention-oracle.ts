import {
  type AttentionCase,
  computeHeadNumber,
  computeSampleNumber,
  documentStart,
  listPlaces,
  type Place,
  philoxKey,
  statisticAt,
} from './attention-case.js';
import { philoxElement } from './philox.js';

/** The inputs of a case, in the order of their shapes (`listShapes`). */
export type AttentionValues = Readonly<Record<'query' | 'key' | 'value' | 'outputGradient', Float64Array>>;

/** `query`, `key` and `value` are gradients. */
export type AttentionResults = Record<'output' | 'logSumExp' | 'query' | 'key' | 'value', Float64Array>;

/** Tells whether a query sees a key. */
export function sees(one: AttentionCase, query: Place, key: Place): boolean {
  const { causal, windowSize = Number.POSITIVE_INFINITY, documents, isPadding } = one;
  const distance = query.position - key.position;
  if (query.sample !== key.sample || isPadding?.(key.position, key.sample)) return false;
  if (causal && (distance < 0 || distance > windowSize)) return false;
  return documents === undefined || key.position >= documentStart(documents, query.position);
}

/** Returns the factor that dropout applies to a probability. */
function dropoutFactor(one: AttentionCase, head: number, query: Place, key: Place): number {
  const { dropout = 0 } = one;
  if (dropout === 0) return 1;
  const site = { row: query.position, column: key.position, head: computeHeadNumber(one, head) };
  const bits = philoxElement(philoxKey, { ...site, sample: computeSampleNumber(one, query.sample) });
  return bits >= Math.floor(dropout * 2 ** 32) ? 1 / (1 - dropout) : 0;
}

const dot = (left: Float64Array, right: Float64Array): number =>
  left.reduce((total, value, index) => total + value * right[index]!, 0);

function add(to: Float64Array, factor: number, from: Float64Array): void {
  for (let index = 0; index < to.length; index++) to[index]! += factor * from[index]!;
}

/**
 * Computes dropout(softmax(cap(scale q k^T))) v over the keys that each query sees, its logSumExp and its
 * gradients, one score at a time, in double.
 */
export function attentionOracle(one: AttentionCase, values: AttentionValues): AttentionResults {
  const { heads, headsPerGroup = 1, headSize, valueSize = headSize, scale = 1 / Math.sqrt(headSize) } = one;
  const { softCap: cap = Number.POSITIVE_INFINITY } = one;
  const capped = (score: number): number => (cap === Infinity ? score : cap * Math.tanh(score / cap));
  const zeros = (like: ArrayLike<number>) => new Float64Array(like.length);
  const results: AttentionResults = {
    output: zeros(values.outputGradient),
    logSumExp: new Float64Array(values.outputGradient.length / valueSize).fill(-1e30),
    query: zeros(values.query),
    key: zeros(values.key),
    value: zeros(values.value),
  };
  const keys = listPlaces(one, 'keys');
  for (const [row, query] of listPlaces(one, 'queries').entries()) {
    const seen = keys.flatMap((key, index) => (query && key && sees(one, query, key) ? [index] : []));
    for (let head = 0; head < heads && seen.length > 0; head++) {
      const ofQuery = (from: Float64Array, size: number) =>
        from.subarray((row * heads + head) * size, (row * heads + head + 1) * size);
      const ofKey = (from: Float64Array, key: number, size: number) => {
        const at = key * (heads / headsPerGroup) + Math.floor(head / headsPerGroup);
        return from.subarray(at * size, (at + 1) * size);
      };
      const q = ofQuery(values.query, headSize);
      const dO = ofQuery(values.outputGradient, valueSize);
      const scores = seen.map((key) => capped(scale * dot(q, ofKey(values.key, key, headSize))));
      const highest = Math.max(...scores);
      const logSumExp = highest + Math.log(scores.reduce((sum, score) => sum + Math.exp(score - highest), 0));
      results.logSumExp[statisticAt(one, row, head)] = logSumExp;
      const probabilities = scores.map((score) => Math.exp(score - logSumExp));
      const factors = seen.map((key) => dropoutFactor(one, head, query!, keys[key]!));
      const gradients = seen.map(
        (key, index) => factors[index]! * dot(dO, ofKey(values.value, key, valueSize)),
      );
      const mean = probabilities.reduce((sum, weight, index) => sum + weight * gradients[index]!, 0);
      seen.forEach((key, index) => {
        const kept = factors[index]! * probabilities[index]!;
        const ofCap = 1 - (scores[index]! / cap) ** 2;
        const ofScore = ofCap * scale * probabilities[index]! * (gradients[index]! - mean);
        add(ofQuery(results.output, valueSize), kept, ofKey(values.value, key, valueSize));
        add(ofQuery(results.query, headSize), ofScore, ofKey(values.key, key, headSize));
        add(ofKey(results.key, key, headSize), ofScore, q);
        add(ofKey(results.value, key, valueSize), kept, dO);
      });
    }
  }
  return results;
}
