import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { logProbability, type Sampling, sampleToken, samplingProbabilities } from './sampling.js';

/**
 * Computes the probabilities according to their definition. Among equal logits, tokens with smaller ids come
 * first.
 */
function naiveProbabilities(
  logits: readonly number[],
  { temperature = 1, topK, topP = 1 }: Sampling,
): number[] {
  const ranked = logits
    .map((logit, token) => ({ logit, token }))
    .sort((a, b) => b.logit - a.logit || a.token - b.token);
  if (temperature === 0) return logits.map((_, token) => (token === ranked[0]!.token ? 1 : 0));
  const kept = ranked.filter(
    ({ logit }) => logit >= ranked[Math.min(topK ?? logits.length, logits.length) - 1]!.logit,
  );
  const weight = ({ logit }: { logit: number }): number => Math.exp((logit - ranked[0]!.logit) / temperature);
  const total = kept.reduce((sum, one) => sum + weight(one), 0);
  const nucleus: typeof kept = [];
  for (const one of kept) {
    const before = nucleus.reduce((sum, member) => sum + weight(member), 0);
    if (topP < 1 && before >= topP * total) break;
    nucleus.push(one);
  }
  const nucleusTotal = nucleus.reduce((sum, one) => sum + weight(one), 0);
  return logits.map((logit, token) =>
    nucleus.some((one) => one.token === token) ? weight({ logit }) / nucleusTotal : 0,
  );
}

// there are few distinct values, so that ties are frequent; some tokens are impossible
const logit = fc.oneof(
  { weight: 8, arbitrary: fc.integer({ min: -12, max: 12 }).map((value) => value / 2) },
  { weight: 1, arbitrary: fc.constant(Number.NEGATIVE_INFINITY) },
);
const logits = fc
  .oneof(
    { weight: 4, arbitrary: fc.array(logit, { minLength: 1, maxLength: 20 }) },
    // all logits are equal, because sums of their probabilities can equal top-p exactly
    { weight: 1, arbitrary: fc.integer({ min: 1, max: 16 }).map((size) => new Array<number>(size).fill(1)) },
  )
  .filter((values) => values.some((value) => Number.isFinite(value)));
const sampling = fc.record(
  {
    temperature: fc.constantFrom(0, 0.3, 0.7, 1, 2.5),
    topK: fc.integer({ min: 1, max: 25 }),
    topP: fc.constantFrom(0.01, 0.2, 0.25, 0.5, 0.75, 0.55, 0.81, 0.93, 0.999, 1),
  },
  { requiredKeys: [] },
);

describe('samplingProbabilities', () => {
  it('agrees with the definition of temperature, top-k and top-p', () => {
    fc.assert(
      fc.property(logits, sampling, (values, how) => {
        const actual = samplingProbabilities(Float32Array.from(values), how);
        const expected = naiveProbabilities(values, how);
        // float64 sums of 20 terms in another order
        actual.forEach((value, token) => {
          expect(Math.abs(value - expected[token]!)).toBeLessThan(1e-14);
        });
        expect(actual.map((value) => (value > 0 ? 1 : 0))).toEqual(
          Float64Array.from(expected, (value) => (value > 0 ? 1 : 0)),
        );
      }),
      { numRuns: 1000 },
    );
  });
});

describe('sampleToken', () => {
  it('takes the token whose part of [0, 1) contains the random number', () => {
    fc.assert(
      fc.property(
        logits,
        sampling,
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        (values, how, u) => {
          const array = Float32Array.from(values);
          const token = sampleToken(array, how, u);
          const probabilities = samplingProbabilities(array, how);
          const below = probabilities.subarray(0, token).reduce((sum, value) => sum + value, 0);
          expect(probabilities[token]).toBeGreaterThan(0);
          // rounding of float64 sums of 20 terms
          expect(below).toBeLessThanOrEqual(u + 1e-14);
          expect(below + probabilities[token]!).toBeGreaterThanOrEqual(u - 1e-14);
        },
      ),
    );
  });

  it.each([[Number.NaN], [Number.POSITIVE_INFINITY], [Number.NEGATIVE_INFINITY]])(
    'refuses logits that are no distribution: %f',
    (value) => {
      const expected = expect.objectContaining({ code: 'MTL_LOGITS_NOT_FINITE' });
      const array = Float32Array.of(value, value);
      expect(() => sampleToken(array, {}, 0.5)).toThrow(expected);
      expect(() => sampleToken(array, { temperature: 0 }, 0.5)).toThrow(expected);
    },
  );
});

describe('logProbability', () => {
  it.each([1, 1e6, 1e8, -1e8])('is -ln 4 for four logits of %d', (size) => {
    // the error comes from rounding a float64 value near 1.386; for logits of 1e8, float64 has 8 digits after
    // the decimal point
    expect(logProbability(new Float32Array(4).fill(size), 2)).toBeCloseTo(-Math.log(4), 14);
  });

  it('is the logarithm of the softmax', () => {
    const logits = Float32Array.of(1, -2, 0.5);
    const sum = logits.reduce((total, logit) => total + Math.exp(logit), 0);
    expect(logProbability(logits, 1)).toBeCloseTo(-2 - Math.log(sum), 14);
  });
});
