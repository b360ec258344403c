import { describe, expect, it } from 'vitest';
import { attentionCachedForward, type Device, Tensor, tidy } from '../src/index.js';
import { type AttentionCase, listShapes, padded, statisticAt } from './support/attention-case.js';
import { type AttentionResults, type AttentionValues, attentionOracle } from './support/attention-oracle.js';
import { attentionValues, computeForward } from './support/attention-run.js';

interface Steps {
  /** The end of the positions of each call. */
  readonly ends: readonly number[];
  readonly device?: Device;
  /** True to ask for the log-sum-exp, too. */
  readonly hasStatistics?: boolean;
}

/** Computes a sequence in several calls that share caches of a few more positions. */
function inSteps(
  one: AttentionCase,
  values: AttentionValues,
  { ends, device = 'cpu', hasStatistics = false }: Steps,
): Pick<AttentionResults, 'output' | 'logSumExp'> {
  const { windowSize, scale } = one;
  const shapes = listShapes(one);
  return tidy(() => {
    const make = (source: Float64Array, shape: readonly number[]) =>
      Tensor.from([...source], { shape, dtype: 'float32', device });
    const operands = [
      make(values.query, shapes.query),
      make(values.key, shapes.key),
      make(values.value, shapes.value),
      Tensor.empty({ shape: shapes.output, dtype: 'float32', device }),
    ];
    const [positions, batch, groups] = shapes.key as [number, number, number];
    const [keyCache, valueCache] = [shapes.key, shapes.value].map((shape) =>
      Tensor.empty({ shape: [batch, groups, positions + 10, shape.at(-1)!], dtype: 'float32', device }),
    );
    const logSumExp = new Float64Array(positions * batch * one.heads);
    let position = 0;
    for (const end of ends) {
      const [query, key, value, output] = operands.map((tensor) => tensor.rows(position, end));
      const shape = [batch, one.heads, end - position];
      const statistics = Tensor.empty({ shape, dtype: 'float32', device });
      attentionCachedForward({
        keyCache: keyCache!,
        valueCache: valueCache!,
        output: output!,
        ...(hasStatistics && { logSumExp: statistics }),
        query: query!,
        key: key!,
        value: value!,
        position,
        windowSize,
        ...(scale !== undefined && { scale }),
      });
      const step = { ...one, ...padded(end - position, batch) };
      const from = hasStatistics ? statistics.toArray() : [];
      for (let row = 0; row < (end - position) * batch; row++) {
        for (let head = 0; head < one.heads; head++) {
          logSumExp[statisticAt(one, row + position * batch, head)] = from[statisticAt(step, row, head)] ?? 0;
        }
      }
      position = end;
    }
    return { output: Float64Array.from(operands[3]!.toArray()), logSumExp };
  });
}

const largestDifference = (left: Float64Array, right: Float64Array): number =>
  left.reduce((largest, value, index) => Math.max(largest, Math.abs(value - right[index]!)), 0);

const causal = true;
const grouped = { name: '', heads: 6, headsPerGroup: 3, causal };

describe('attention with a cache', () => {
  it.each([
    [24, 24],
    [24, 40],
    [40, 7],
  ])('decodes step by step what one causal pass computes: D = %i, E = %i', (headSize, valueSize) => {
    const one = { ...grouped, ...padded(150, 2), headSize, valueSize };
    const values = attentionValues(one);
    const expected = computeForward(one, values);
    const ends = Array.from({ length: 51 }, (_, index) => 100 + index);
    for (const hasStatistics of [false, true]) {
      const actual = inSteps(one, values, { ends, hasStatistics });
      // the same float32 arithmetic over tiles that begin elsewhere: rounding of means of values in [-1, 1]
      expect(largestDifference(actual.output, expected.output)).toBeLessThan(1e-6);
      if (hasStatistics) expect(largestDifference(actual.logSumExp, expected.logSumExp)).toBeLessThan(2e-6);
    }
  });

  it.each<[Device, number | undefined]>([
    ['reference', undefined],
    ['reference', 30],
    ['cpu', undefined],
    ['cpu', 30],
  ])('has the results of the formula on %s in steps: window %s', (device, windowSize) => {
    const sizes = { headSize: 20, valueSize: 12, scale: 0.4 };
    const one = { ...grouped, ...padded(90, 2), ...sizes, ...(windowSize !== undefined && { windowSize }) };
    const values = attentionValues(one);
    const expected = attentionOracle(one, values);
    const actual = inSteps(one, values, { ends: [67, 68, 89, 90], device, hasStatistics: true });
    // float32: means of values of size 1
    expect(largestDifference(actual.output, expected.output)).toBeLessThan(2e-6);
    expect(largestDifference(actual.logSumExp, expected.logSumExp)).toBeLessThan(2e-6);
  });

  it('gives the bits of one causal pass to a whole sequence', () => {
    const one = { ...grouped, ...padded(140, 2), headSize: 20 };
    const values = attentionValues(one);
    expect(inSteps(one, values, { ends: [140], hasStatistics: true })).toEqual(computeForward(one, values));
  });

  it('leaves the cache as it is where there are no new positions', () => {
    tidy(() => {
      const zeros = (shape: readonly number[]) => Tensor.zeros({ shape, dtype: 'float32' });
      const [keyCache, valueCache] = [zeros([1, 2, 4, 8]), zeros([1, 2, 4, 6])];
      const [query, key] = [zeros([0, 1, 2, 8]), zeros([0, 1, 2, 8])];
      const [value, output] = [zeros([0, 1, 2, 6]), zeros([0, 1, 2, 6])];
      for (const position of [0, 3, 4]) {
        attentionCachedForward({ keyCache, valueCache, output, query, key, value, position });
      }
      expect([...keyCache.toArray(), ...valueCache.toArray()]).toEqual(new Array(112).fill(0));
    });
  });
});
