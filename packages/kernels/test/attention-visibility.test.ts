import { afterAll, describe, expect, it } from 'vitest';
import {
  attentionCachedForward,
  attentionForward,
  countedFlops,
  type Device,
  hostInformation,
  resetCountedFlops,
  setNumThreads,
  Tensor,
  tidy,
  type Visibility,
} from '../src/index.js';
import {
  type AttentionResults,
  type AttentionSizes,
  type AttentionValues,
  attentionFormula,
  attentionValues,
} from './support/attention-formula.js';
import { differentiateAttention } from './support/differentiate-attention.js';

const dtype = 'float32';
const scale = 0.4;
afterAll(() => setNumThreads(hostInformation().numThreads));

interface Rows {
  readonly sizes: AttentionSizes;
  readonly device: Device;
  /** True for packed samples: operands have rows instead of positions and samples. */
  readonly isPacked?: boolean;
}

/** Returns output and gradients of the operations. */
function attend(
  { sizes, device, isPacked = false }: Rows,
  values: AttentionValues,
  visibility: Visibility,
): AttentionResults {
  const { queries, keys, batch, heads, groups, size } = sizes;
  const shapeOf = (positions: number, ofHeads: number): number[] =>
    isPacked ? [positions, ofHeads, size] : [positions, batch, ofHeads, size];
  return tidy(() => {
    const make = (source: Float64Array, shape: number[]): Tensor =>
      Tensor.from([...source], { shape, dtype, device });
    const empty = (shape: readonly number[]): Tensor => Tensor.empty({ shape, dtype, device });
    const operands = {
      query: make(values.query, shapeOf(queries, heads)),
      key: make(values.key, shapeOf(keys, groups)),
      value: make(values.value, shapeOf(keys, groups)),
      output: empty(shapeOf(queries, heads)),
      logSumExp: empty(isPacked ? [heads, queries] : [batch, heads, queries]),
      scale,
      visibility,
    };
    const gradients = {
      queryGradient: empty(operands.query.shape),
      keyGradient: empty(operands.key.shape),
      valueGradient: empty(operands.value.shape),
    };
    attentionForward(operands);
    const outputGradient = make(values.outputGradient, shapeOf(queries, heads));
    differentiateAttention({ ...operands, ...gradients, outputGradient });
    const { queryGradient: query, keyGradient: key, valueGradient: value } = gradients;
    const results = { output: operands.output, query, key, value };
    return Object.fromEntries(
      Object.entries(results).map(([name, tensor]) => [name, Float64Array.from(tensor.toArray())]),
    ) as unknown as AttentionResults;
  });
}

function expectClose(actual: AttentionResults, expected: AttentionResults): void {
  for (const name of ['output', 'query', 'key', 'value'] as const) {
    expect(actual[name].length).toBe(expected[name].length);
    const difference = actual[name].reduce(
      (largest, value, index) => Math.max(largest, Math.abs(value - expected[name][index]!)),
      0,
    );
    // float32: means of values of size 1, and sums of up to 200 * 3 terms of size 0.1
    expect(difference, name).toBeLessThan(2e-5);
  }
}

/** Compares with the formula on the reference, and on the CPU in one part per group and in several. */
function expectFormula(
  sizes: AttentionSizes,
  isVisible: (sample: number, query: number, key: number) => boolean,
  { options, isPacked = false }: { options: (device: Device) => Visibility; isPacked?: boolean },
): void {
  const values = attentionValues(sizes);
  const expected = attentionFormula(sizes, values, { scale, isVisible });
  for (const [device, threads] of [
    ['reference', 1],
    ['cpu', 1],
    ['cpu', 5],
  ] as const) {
    setNumThreads(threads);
    tidy(() => {
      expectClose(attend({ sizes, device, isPacked }, values, options(device)), expected);
      return [];
    });
  }
}

describe('keys that a query sees', () => {
  const sizes = { queries: 150, keys: 150, batch: 2, heads: 6, groups: 2, size: 20 };

  it.each([0, 1, 40, 64, 200])('are those of a window of %i', (windowSize) => {
    expectFormula(sizes, (_, query, key) => key <= query && key >= query - windowSize, {
      options: () => ({ causal: true, windowSize }),
    });
  });

  it('are those of a window, a document and a mask at once', () => {
    const start = (sample: number, query: number): number =>
      sample === 0 ? (query < 70 ? 0 : 70) : Math.floor(query / 33) * 33;
    const isReal = (sample: number, key: number): boolean => (key * 7 + sample) % 5 !== 3;
    const all = <T>(of: (sample: number, position: number) => T): T[] =>
      Array.from({ length: 300 }, (_, index) => of(Math.floor(index / 150), index % 150));
    expectFormula(
      sizes,
      (sample, query, key) =>
        key <= query && key >= query - 50 && key >= start(sample, query) && isReal(sample, key),
      {
        options: (device) => ({
          causal: true,
          windowSize: 50,
          keyStart: Tensor.from(all(start), { shape: [2, 150], dtype: 'int32', device }),
          keyMask: Tensor.from(
            all((sample, key) => Number(isReal(sample, key))),
            {
              shape: [2, 150],
              dtype: 'uint8',
              device,
            },
          ),
        }),
      },
    );
  });

  it.each([
    { queries: 70, keys: 200, firstQuery: 130, causal: true },
    { queries: 70, keys: 200, firstQuery: 61, causal: true },
    { queries: 70, keys: 200, firstQuery: 101, causal: true, windowSize: 30 },
    { queries: 100, keys: 40, firstQuery: 0, causal: true },
    { queries: 70, keys: 40, firstQuery: 20, causal: true, windowSize: 25 },
    { queries: 140, keys: 30, firstQuery: 0, causal: false },
    { queries: 1, keys: 130, firstQuery: 100, causal: true, windowSize: 70 },
    { queries: 70, keys: 100, firstQuery: 130, firstKey: 130, causal: true },
    { queries: 140, keys: 100, firstQuery: 20, firstKey: 90, causal: true },
    { queries: 70, keys: 100, firstQuery: 0, firstKey: 70, causal: true },
    { queries: 140, keys: 130, firstQuery: 150, firstKey: 37, causal: true, windowSize: 40 },
    { queries: 70, keys: 100, firstQuery: 0, firstKey: 70, causal: false },
  ])(
    'are those of $keys keys from $firstKey on and $queries queries from $firstQuery on: $causal, $windowSize',
    (call) => {
      const { queries, keys, firstQuery, firstKey = 0, causal, windowSize } = call;
      expectFormula(
        { ...sizes, queries, keys },
        (_, query, key) => {
          const distance = firstQuery + query - (firstKey + key);
          return !causal || (distance >= 0 && distance <= (windowSize ?? Infinity));
        },
        { options: () => ({ firstQuery, firstKey, causal, windowSize }) },
      );
    },
  );

  it('are those of documents by positions in the sequence', () => {
    const [firstQuery, firstKey] = [90, 40];
    const start = (query: number): number => Math.floor((firstQuery + query) / 55) * 55;
    expectFormula(
      { ...sizes, queries: 140, keys: 120 },
      (_, query, key) => firstKey + key <= firstQuery + query && firstKey + key >= start(query),
      {
        options: (device) => {
          const starts = Array.from({ length: 2 * 140 }, (_, index) => start(index % 140));
          const keyStart = Tensor.from(starts, { shape: [2, 140], dtype: 'int32', device });
          return { causal: true, firstQuery, firstKey, keyStart };
        },
      },
    );
  });

  it('are read alone: values of no number among keys after all queries reach nothing', () => {
    const later = { queries: 70, keys: 130, batch: 1, heads: 2, groups: 1, size: 8 };
    const values = attentionValues(later);
    values.key.fill(Number.NaN);
    values.value.fill(Number.NaN);
    const { output, query, key, value } = attend({ sizes: later, device: 'cpu' }, values, {
      causal: true,
      firstQuery: 5,
      firstKey: 75,
    });
    for (const result of [output, query, key, value])
      expect(result.every((number) => number === 0)).toBe(true);
  });

  it.each([{}, { causal: true }, { causal: true, windowSize: 20 }])(
    'are those of the samples of packed rows: %j',
    (masks) => {
      const { causal = false, windowSize = Infinity }: Visibility = masks;
      const lengths = [70, 0, 1, 129];
      const starts = [0, 70, 70, 71, 200];
      const rows = starts.at(-1)! + 6; // six rows belong to no sample
      const sampleOf = (row: number): number => starts.findLastIndex((start) => start <= row);
      expectFormula(
        { ...sizes, queries: rows, keys: rows, batch: 1 },
        (_, query, key) =>
          sampleOf(query) < lengths.length &&
          sampleOf(query) === sampleOf(key) &&
          (!causal || (key <= query && key >= query - windowSize)),
        {
          isPacked: true,
          options: (device) => ({
            ...masks,
            packed: {
              starts: Tensor.from(starts, { shape: [starts.length], dtype: 'int32', device }),
              longest: 129,
              numScores: 70 ** 2 + 1 + 129 ** 2,
            },
          }),
        },
      );
    },
  );

  it.each([undefined, 30])('are those of a cache, in steps: window %s', (windowSize) => {
    const { batch, heads, groups, size } = sizes;
    const all = { ...sizes, queries: 90, keys: 90 };
    const values = attentionValues(all);
    const expected = attentionFormula(all, values, {
      scale,
      isVisible: (_, query, key) => key <= query && key >= query - (windowSize ?? Infinity),
    });
    for (const device of ['reference', 'cpu'] as const) {
      tidy(() => {
        const make = (source: Float64Array, ofHeads: number): Tensor =>
          Tensor.from([...source], { shape: [90, batch, ofHeads, size], dtype, device });
        const [query, key, value] = [
          make(values.query, heads),
          make(values.key, groups),
          make(values.value, groups),
        ];
        const cache = { shape: [batch, groups, 100, size], dtype, device } as const;
        const [keyCache, valueCache] = [Tensor.empty(cache), Tensor.empty(cache)];
        const output = Tensor.empty({ shape: query.shape, dtype, device });
        for (const [position, end] of [
          [0, 67],
          [67, 68],
          [68, 89],
          [89, 90],
        ] as const) {
          const rows = (tensor: Tensor): Tensor => tensor.rows(position, end);
          attentionCachedForward({
            keyCache,
            valueCache,
            output: rows(output),
            query: rows(query),
            key: rows(key),
            value: rows(value),
            position,
            windowSize,
            scale,
          });
        }
        expectClose({ ...expected, output: Float64Array.from(output.toArray()) }, expected);
      });
    }
  });

  it('are computed alone: values that no query of a tile sees do not reach it', () => {
    const alone = { queries: 300, keys: 300, batch: 1, heads: 2, groups: 1, size: 8 };
    const values = attentionValues(alone);
    values.value.fill(Number.NaN, 20 * 8, 21 * 8); // of position 20
    const results = attend({ sizes: alone, device: 'cpu' }, values, { causal: true, windowSize: 10 });
    // tiles have 64 positions: queries from 128 on see no key before 118
    const areFinite = (array: Float64Array): boolean => array.subarray(128 * 2 * 8).every(Number.isFinite);
    expect(areFinite(results.output) && areFinite(results.query)).toBe(true);
    expect(results.output.subarray(20 * 2 * 8, 21 * 2 * 8).some(Number.isNaN)).toBe(true);
  });
});

describe('attention with options for visible keys', () => {
  function attempt(options: Visibility): void {
    const sizes = { queries: 4, keys: 4, batch: 2, heads: 1, groups: 1, size: 8 };
    attend({ sizes, device: 'cpu' }, attentionValues(sizes), options);
  }

  it('counts the keys of a window, not all', () => {
    resetCountedFlops();
    attempt({ causal: true, windowSize: 1 });
    expect(countedFlops()).toBe(6 * 2 * (4 * 2 * 8) * 2); // six matmuls, two keys a query
  });

  it.each<[string, RegExp, (device: Device) => Visibility]>([
    ['a window without causal', /windowSize is 3 without causal/, () => ({ windowSize: 3 })],
    [
      'a window of half a position',
      /windowSize is 0.5, expected an integer from 0/,
      () => ({ causal: true, windowSize: 0.5 }),
    ],
    ['a window of -2', /windowSize is -2, expected an integer/, () => ({ causal: true, windowSize: -2 })],
    [
      'a negative position',
      /firstQuery is -1 and firstKey 0, expected integers from 0/,
      () => ({ firstQuery: -1 }),
    ],
    ['a position of half a key', /firstKey 0.5, expected integers from 0/, () => ({ firstKey: 0.5 })],
  ])('refuses %s', (_, message, options) => {
    tidy(() => {
      expect(() => attempt(options('cpu'))).toThrow(message);
    });
  });

  it('refuses masks of padding with packed samples', () => {
    const sizes = { queries: 4, keys: 4, batch: 1, heads: 1, groups: 1, size: 8 };
    tidy(() => {
      const packed = {
        starts: Tensor.from([0, 4], { shape: [2], dtype: 'int32' }),
        longest: 4,
        numScores: 16,
      };
      const run = (options: Visibility) => () =>
        attend({ sizes, device: 'cpu', isPacked: true }, attentionValues(sizes), { packed, ...options });
      const keyMask = Tensor.zeros({ shape: [1, 4], dtype: 'uint8' });
      expect(run({ keyMask })).toThrow(/keyMask is given with packed samples/);
      expect(run({ firstQuery: 2 })).toThrow(/firstQuery is 2 and firstKey 0 with packed samples/);
      expect(run({ firstKey: 3 })).toThrow(/firstQuery is 0 and firstKey 3 with packed samples/);
      const scores = (numScores: number) => run({ packed: { ...packed, numScores } });
      for (const wrong of [-1, 3.5, 17, Number.NaN]) {
        expect(scores(wrong)).toThrow(
          /numScores is \S+, expected the sum of the squares.* an integer from 0 to/,
        );
      }
      expect(scores(12)).toThrow(/numScores is 12, expected 16, the sum of the squares of all lengths/);
      expect(scores(16)).not.toThrow();
    });
  });
});
