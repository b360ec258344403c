import { afterAll, describe, expect, it } from 'vitest';
import {
  type DType,
  hostInformation,
  numLiveTensors,
  setInstructionSet,
  setNumThreads,
} from '../src/index.js';
import type { AttentionCase } from './support/attention-case.js';
import { attentionMatrix, matrixValues } from './support/attention-matrix.js';
import { type AttentionResults, attentionOracle } from './support/attention-oracle.js';
import { attend, attentionValues } from './support/attention-run.js';

// Every property of a call with padded and with packed samples, against the formula in double: on the
// reference, and on the CPU with each of its instruction sets, in one part per group and in several.

const { numThreads, detectedInstructionSet } = hostInformation();
const levels = hostInformation().usableInstructionSets;
afterAll(() => {
  setInstructionSet(detectedInstructionSet);
  setNumThreads(numThreads);
  expect(numLiveTensors()).toBe(0);
});

/**
 * The largest differences, of values of size 1. float64: sums in another order. float32: means of values of
 * size 1, and sums of up to 150 * 3 terms of size 0.1. 16 bits: results, and in bfloat16 probabilities and
 * score gradients, too, are rounded to 8 or 11 bits; gradients are sums of up to 3 heads' terms.
 */
const tolerances: Readonly<Partial<Record<DType, number>>> = {
  float64: 1e-12,
  float32: 2e-5,
  bfloat16: 6e-2,
  float16: 4e-3,
};

function expectClose(
  actual: AttentionResults,
  expected: AttentionResults,
  of: { dtype: DType; where: string },
): void {
  for (const name of ['output', 'logSumExp', 'query', 'key', 'value'] as const) {
    expect(actual[name].length).toBe(expected[name].length);
    // logSumExp and results that are exact are float32 over 16 bits
    const largest = actual[name].reduce((most, value, index) => {
      const right = expected[name][index]!;
      return Math.max(most, Math.abs(value - right) / Math.max(1, Math.abs(right)));
    }, 0);
    const bound = name === 'logSumExp' && of.dtype !== 'float64' ? 2e-5 : tolerances[of.dtype]!;
    expect(largest, `${name} ${of.where}`).toBeLessThan(bound); // NaN is no less
  }
}

function check(one: AttentionCase, dtype: DType): void {
  const values = attentionValues(one);
  const onReference = attend(one, values, { device: 'reference', dtype });
  const expected = attentionOracle(one, onReference.inputs);
  expectClose(onReference.results, expected, { dtype, where: 'on the reference' });
  if (dtype === 'float64') return; // on the reference alone
  for (const level of levels) {
    setInstructionSet(level);
    for (const threads of [1, 5]) {
      setNumThreads(threads);
      const { results } = attend(one, values, { dtype });
      expectClose(results, expected, { dtype, where: `on ${level} with ${threads} threads` });
    }
  }
}

describe('attention has the results of the formula', () => {
  it.each(attentionMatrix().map(({ one }) => [one.name, one] as const))('%s', (_, one) => {
    for (const dtype of one.dtypes!) check(one, dtype);
  });

  it.each(['padded', 'packed'])('with every property: %s', (packing) => {
    const met = new Set(
      attentionMatrix()
        .filter(({ values }) => values.packing === packing)
        .flatMap(({ values }) => Object.entries(values).map(([property, value]) => `${property}: ${value}`)),
    );
    expect(matrixValues().filter((value) => !met.has(value))).toEqual([]);
  });
});
