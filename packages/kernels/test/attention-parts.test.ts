import { afterAll, describe, expect, it } from 'vitest';
import {
  attentionForward,
  type Device,
  hostInformation,
  instructionSets,
  setInstructionSet,
  Tensor,
  tidy,
  type Visibility,
} from '../src/index.js';
import { attentionValues } from './support/attention-formula.js';

const detected = instructionSets.indexOf(hostInformation().detectedInstructionSet);
const places: Array<readonly [Device, (typeof instructionSets)[number]]> = [
  ['reference', 'plain'],
  ...instructionSets.slice(0, detected + 1).map((level) => ['cpu', level] as const),
];
afterAll(() => setInstructionSet(hostInformation().detectedInstructionSet));

const [length, batch, heads, groups] = [230, 2, 2, 1];

type Range = readonly [first: number, end: number];

/** Returns the rows of a range of positions in a tensor [S, B, heads, D]. */
function rowsOf(values: Float64Array, [first, end]: Range): Float64Array {
  const row = values.length / length;
  return values.subarray(first * row, end * row);
}

interface Part {
  readonly queries: Range;
  readonly keys: Range;
  readonly size: number;
  readonly device: Device;
  readonly dtype: 'float32' | 'bfloat16';
}

/** Returns output [S, B, A, D] and logSumExp [B, A, S] of some queries with some keys of a sequence. */
function attend(
  { queries, keys, size, device, dtype }: Part,
  values: Record<'query' | 'key' | 'value', Float64Array>,
  visibility: Visibility,
): { output: number[]; logSumExp: number[] } {
  return tidy(() => {
    const [numQueries, numKeys] = [queries[1] - queries[0], keys[1] - keys[0]];
    const make = (source: Float64Array, range: Range, shape: readonly number[]) =>
      Tensor.from([...rowsOf(source, range)], { shape, dtype, device });
    const output = Tensor.empty({ shape: [numQueries, batch, heads, size], dtype, device });
    const logSumExp = Tensor.empty({ shape: [batch, heads, numQueries], dtype: 'float32', device });
    const samples = Tensor.from([11, 2 ** 33], { shape: [batch], dtype: 'int64', device });
    attentionForward({
      output,
      logSumExp,
      query: make(values.query, queries, output.shape),
      key: make(values.key, keys, [numKeys, batch, groups, size]),
      value: make(values.value, keys, [numKeys, batch, groups, size]),
      visibility: { ...visibility, firstQuery: queries[0], firstKey: keys[0] },
      dropout: { probability: 0.3, keyLow: 5, keyHigh: 6, samples, headOffset: 2 },
    });
    return { output: output.toArray(), logSumExp: logSumExp.toArray() };
  });
}

describe.each(places)('parts of a sequence on %s, %s', (device, level) => {
  it.each<[string, Visibility]>([
    ['causal', { causal: true }],
    ['in a window', { causal: true, windowSize: 80 }],
    ['not causal', {}],
  ])('some queries with all keys have the bits of the whole: %s', (_, options) => {
    setInstructionSet(level);
    const sizes = { queries: length, keys: length, batch, heads, groups, size: 20 };
    const values = attentionValues(sizes);
    for (const dtype of ['float32', 'bfloat16'] as const) {
      const part = { keys: [0, length] as Range, size: 20, device, dtype };
      const whole = attend({ ...part, queries: [0, length] }, values, options);
      for (const queries of [
        [0, 70],
        [37, 150],
        [129, 130],
        [150, 230],
      ] as const) {
        const some = attend({ ...part, queries }, values, options);
        expect(some.output).toEqual([...rowsOf(Float64Array.from(whole.output), queries)]);
        const statistics = whole.logSumExp.filter((_, index) => {
          const position = index % length;
          return position >= queries[0] && position < queries[1];
        });
        expect(some.logSumExp).toEqual(statistics);
      }
    }
  });

  it('dropout drops what it drops in the whole', () => {
    setInstructionSet(level);
    // value k is 1 in column k: an output is 0 where its probability is dropped
    const size = length;
    const values = attentionValues({ queries: length, keys: length, batch, heads, groups, size });
    const value = Float64Array.from(values.value, (_, index) =>
      Number(Math.floor(index / (batch * groups * size)) === index % size),
    );
    const part = { size, device, dtype: 'float32' } as const;
    const kept = (queries: Range, keys: Range): boolean[] =>
      attend({ ...part, queries, keys }, { ...values, value }, {}).output.map((number) => number !== 0);
    const whole = kept([0, length], [0, length]);
    const share = whole.filter(Boolean).length / whole.length;
    expect(share).toBeGreaterThan(0.69); // of 211,600 probabilities: 0.7 within ten standard deviations
    expect(share).toBeLessThan(0.71);
    const rowSize = batch * heads * size;
    for (const [queries, keys] of [
      [
        [0, 100],
        [0, 230],
      ],
      [
        [31, 200],
        [64, 192],
      ],
      [
        [100, 165],
        [37, 230],
      ],
      [
        [60, 62],
        [127, 140],
      ],
    ] as const) {
      const expected = whole
        .slice(queries[0] * rowSize, queries[1] * rowSize)
        .map((isKept, index) => isKept && index % size >= keys[0] && index % size < keys[1]);
      const actual = kept(queries, keys);
      expect(actual.length).toBe(expected.length);
      expect(actual.findIndex((isKept, index) => isKept !== expected[index])).toBe(-1);
    }
  });
});
