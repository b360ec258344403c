import { afterEach, describe, expect, it } from 'vitest';
import { type Device, hostInformation, setInstructionSet } from '../src/index.js';
import { type AttentionCase, packed, packedParts, padded, part } from './support/attention-case.js';
import { type AttentionResults, attentionOracle } from './support/attention-oracle.js';
import { attend, attentionValues } from './support/attention-run.js';

// Numbers that attention must not lose or let through, with padded and with packed samples.

const detected = hostInformation().detectedInstructionSet;
const levels = hostInformation().usableInstructionSets;
afterEach(() => setInstructionSet(detected));

const largestDifference = (left: Float64Array, right: Float64Array): number =>
  left.reduce((largest, value, index) => Math.max(largest, Math.abs(value - right[index]!)), 0);
const areFinite = (values: Float64Array): boolean => values.every(Number.isFinite);
const names = ['output', 'query', 'key', 'value'] as const;

/** Returns an operand with another value at a position of a sample of one head. */
function withValue(values: Float64Array, one: AttentionCase, at: number, value: number): Float64Array {
  const changed = Float64Array.from(values);
  changed[at * one.headSize] = value;
  return changed;
}

describe.each([
  ['padded', padded(70), padded(80), padded(300)],
  ['packed', packed([70]), packed([80, 1]), packed([300, 5])],
] as const)('attention with %s samples', (_, single, short, long) => {
  const oneHead = { name: '', heads: 1, headSize: 8, causal: true };

  it('has the results of the formula for all head sizes from 1 to 40 and around 128', () => {
    const headSizes = [...Array.from({ length: 40 }, (_, index) => index + 1), 100, 127, 128, 130];
    for (const headSize of headSizes) {
      for (const valueSize of new Set([headSize, Math.abs(41 - headSize) + 1])) {
        const samples = 'isPacked' in single ? packed([19]) : padded(19);
        const one = { ...oneHead, ...samples, headSize, valueSize };
        const { inputs, results } = attend(one, attentionValues(one));
        const expected = attentionOracle(one, inputs);
        const sizes = `D = ${headSize}, E = ${valueSize}`;
        // values in [-1, 1]: sums of up to 130 products, and gradients of size 1
        expect(largestDifference(results.output, expected.output), sizes).toBeLessThan(3e-6);
        for (const name of ['query', 'key', 'value'] as const) {
          expect(largestDifference(results[name], expected[name]), `${name}, ${sizes}`).toBeLessThan(1e-5);
        }
      }
    }
  });

  it('survives scores that overflow a naive exponential', () => {
    const one = { ...oneHead, ...short, headSize: 64, valueSize: 48, scale: 100 };
    const { inputs, results } = attend(one, attentionValues(one));
    // scores of size 1000 carry a float32 rounding error of 3e-5, which is the relative error of a
    // probability
    expect(largestDifference(results.output, attentionOracle(one, inputs).output)).toBeLessThan(1e-3);
    for (const name of names) expect(areFinite(results[name]), name).toBe(true);
  });

  it.each(levels)('shows NaN and infinity where they belong, with %s kernels', (level) => {
    setInstructionSet(level);
    const one = { ...oneHead, ...single };
    const values = attentionValues(one);
    for (const operand of ['query', 'key', 'value'] as const) {
      for (const value of [Number.NaN, Number.POSITIVE_INFINITY]) {
        const wrong = { ...values, [operand]: withValue(values[operand], one, 20, value) };
        const found = (['cpu', 'reference'] as const).map((device) => {
          const { results } = attend(one, wrong, { device });
          const gradients = areFinite(results.query) && areFinite(results.key) && areFinite(results.value);
          return [Array.from(results.output, Number.isFinite), gradients];
        });
        expect(found[0], `${operand}, ${value}`).toEqual(found[1]);
        expect((found[1]![0] as boolean[]).includes(false), 'reaches the output').toBe(true);
      }
    }
  });

  it('does not let values that no query of a tile sees reach the tile', () => {
    const one = { ...oneHead, ...long, heads: 2, headsPerGroup: 2, windowSize: 10 };
    const values = attentionValues(one);
    values.value.fill(Number.NaN, 20 * 8, 21 * 8); // of position 20
    const { output, query } = attend(one, values).results;
    // tiles have 64 positions: queries from 128 on see no key before 118
    for (const result of [output, query]) expect(areFinite(result.subarray(128 * 2 * 8))).toBe(true);
    expect(output.subarray(20 * 2 * 8, 21 * 2 * 8).some(Number.isNaN)).toBe(true);
  });

  it.each(levels)(
    'gives a value that is not finite to the queries that see it alone, with %s kernels',
    (level) => {
      setInstructionSet(level);
      const hidden: ReadonlyArray<Partial<AttentionCase>> = [
        {},
        { windowSize: 10 },
        { windowSize: 10, dropout: 0.3, softCap: 2 },
        ...('isPacked' in single
          ? []
          : [{ documents: [20, 50] }, { isPadding: (position: number) => position % 9 === 2 }]),
      ];
      for (const more of hidden) {
        const one = { ...oneHead, ...short, heads: 2, headsPerGroup: 2, ...more };
        const values = attentionValues(one);
        for (const [position, value] of [
          [20, Number.NaN],
          [71, Number.POSITIVE_INFINITY],
        ] as const) {
          values.value.fill(value, position * 8, (position + 1) * 8);
        }
        const [actual, expected] = (['cpu', 'reference'] as const).map(
          (device) => attend(one, values, { device }).results.output,
        );
        expect(Array.from(actual!, Number.isFinite), JSON.stringify(more)).toEqual(
          Array.from(expected!, Number.isFinite),
        );
        // means of values of size 1, as all other results
        const finite = (from: Float64Array) => from.map((value) => (Number.isFinite(value) ? value : 0));
        expect(largestDifference(finite(actual!), finite(expected!))).toBeLessThan(3e-6);
      }
    },
  );

  it('keeps the share of probabilities that it should', () => {
    // Every key has the same score and every value is 1: the output is the kept fraction divided by the
    // keep probability.
    const lengths = [256, 256, 256, 256];
    const samples = 'isPacked' in single ? packed(lengths) : padded(256, 4);
    const one: AttentionCase = { name: '', heads: 4, headSize: 16, ...samples, dropout: 0.3 };
    const values = attentionValues(one);
    const { output } = attend(one, {
      ...values,
      query: values.query.fill(0),
      value: values.value.fill(1),
    }).results;
    const mean = output.reduce((total, value) => total + value, 0) / output.length;
    // 2^20 independent decisions: a standard deviation of sqrt(0.3 / 0.7 / 2^20) = 6.4e-4
    expect(Math.abs(mean - 1)).toBeLessThan(4 * 6.4e-4);
  });
});

const causal = true;
const invisible: ReadonlyArray<readonly [string, Omit<AttentionCase, 'name' | 'heads' | 'headSize'>]> = [
  ['padded keys of padding', { ...padded(70, 2), isPadding: () => true }],
  ['padded keys after all queries', { ...part([5, 75], [75, 205]), causal }],
  [
    'packed keys after all queries',
    {
      ...packedParts(
        [
          [5, 75, 75, 205],
          [0, 3, 3, 4],
        ],
        [2, 0],
      ),
      causal,
    },
  ],
  ['padded keys before the window', { ...part([200, 270], [5, 105]), causal, windowSize: 90 }],
  ['packed keys before the window', { ...packedParts([[200, 270, 5, 105]], [1, 0]), causal, windowSize: 90 }],
  [
    'packed samples without keys',
    {
      ...packedParts(
        [
          [0, 70, 0, 0],
          [3, 4, 0, 0],
        ],
        [0, 2],
      ),
      causal,
    },
  ],
];

describe.each<Device>(['cpu', 'reference'])('queries without visible keys on %s', (device) => {
  it.each(invisible)('have zeros: %s', (_, samples) => {
    const one = { name: '', heads: 2, headsPerGroup: 2, headSize: 8, valueSize: 6, ...samples };
    const results: AttentionResults = attend(one, attentionValues(one), { device }).results;
    for (const name of names)
      expect(
        results[name].every((value) => value === 0),
        name,
      ).toBe(true);
    expect(new Set(results.logSumExp)).toEqual(new Set([Math.fround(-1e30)]));
  });

  it.each(invisible.filter(([name]) => name.includes('after all queries')))(
    'are not read: %s',
    (_, samples) => {
      const one = { name: '', heads: 2, headsPerGroup: 2, headSize: 8, ...samples };
      const values = attentionValues(one);
      values.key.fill(Number.NaN);
      values.value.fill(Number.NaN);
      const results = attend(one, values, { device }).results;
      for (const name of names)
        expect(
          results[name].every((value) => value === 0),
          name,
        ).toBe(true);
    },
  );
});
