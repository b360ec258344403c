import { describe, expect, it } from 'vitest';
import {
  type AttentionForwardOptions,
  attentionCachedForward,
  attentionForward,
  type Device,
  type DType,
  type PackedSamples,
  splitProjection,
  Tensor,
  tidy,
  type Visibility,
} from '../src/index.js';
import { differentiateAttention } from './support/differentiate-attention.js';
import { refusal } from './support/refusals.js';

const zeros = (shape: readonly number[], dtype: DType = 'float32', device: Device = 'cpu'): Tensor =>
  Tensor.zeros({ shape, dtype, device });
const int32 = (values: readonly number[]): Tensor =>
  Tensor.from(values, { shape: [values.length], dtype: 'int32' });

type Options = Partial<AttentionForwardOptions>;

/** Calls attention on operands that fit, except a few. */
function attend(options: Options): void {
  const operands = {
    logSumExp: zeros([2, 1, 4]),
    query: zeros([4, 2, 1, 8]),
    key: zeros([4, 2, 1, 8]),
    value: zeros([4, 2, 1, 8]),
    ...options,
  };
  attentionForward(operands as AttentionForwardOptions);
}

/** Calls attention on packed rows. */
function attendPacked(
  packed: PackedSamples,
  visibility: Visibility = {},
  rows: readonly [queries: number, keys: number] = [4, 4],
): void {
  const [queries, keys] = rows;
  attentionForward({
    query: zeros([queries, 2, 8]),
    key: zeros([keys, 2, 8]),
    value: zeros([keys, 2, 8]),
    visibility: { packed, ...visibility },
  });
}

/** Returns code and message of the error of a call, whose tensors are disposed. */
const catchRefusal = (call: () => unknown): string => tidy(() => refusal(call));

describe('attention names what is wrong with', () => {
  it.each<[string, string, () => Options]>([
    ['scale', 'scale is 0, expected a finite number above 0', () => ({ scale: 0 })],
    ['softCap', 'softCap is -1, expected a finite number above 0, or 0 for none', () => ({ softCap: -1 })],
    ['the rank of key', 'key has 3 dimensions, expected 4', () => ({ key: zeros([4, 2, 8]) })],
    ['the rank of value', 'value has 3 dimensions, expected 4', () => ({ value: zeros([4, 2, 8]) })],
    [
      'the positions of value',
      'value has shape [5, 2, 1, 8], expected [4, 2, 1, 8]',
      () => ({ value: zeros([5, 2, 1, 8]) }),
    ],
    [
      'the heads of value',
      'value has shape [4, 2, 2, 6], expected [4, 2, 1, 6]',
      () => ({ value: zeros([4, 2, 2, 6]) }),
    ],
    ['the size of value', 'the head size of value is 0', () => ({ value: zeros([4, 2, 1, 0]) })],
    [
      'the size of key',
      'key has shape [4, 2, 1, 6], expected [4, 2, 1, 8]',
      () => ({ key: zeros([4, 2, 1, 6]) }),
    ],
    [
      'an output of the size of keys',
      'output has shape [4, 2, 1, 8], expected [4, 2, 1, 6]',
      () => ({ value: zeros([4, 2, 1, 6]), output: zeros([4, 2, 1, 8]) }),
    ],
    [
      'an output of the groups of keys',
      'output has shape [4, 2, 1, 8], expected [4, 2, 3, 8]',
      () => ({
        query: zeros([4, 2, 1, 3, 8]),
        output: zeros([4, 2, 1, 8]),
        logSumExp: zeros([2, 3, 4]),
      }),
    ],
    [
      'statistics',
      'logSumExp has shape [4, 2, 1], expected [2, 1, 4]',
      () => ({ logSumExp: zeros([4, 2, 1]) }),
    ],
    [
      'the dtype of a mask',
      'keyMask is int32, expected uint8',
      () => ({ visibility: { keyMask: zeros([2, 4], 'int32') } }),
    ],
    [
      'a probability',
      'dropoutProbability is 1, expected 0 or more and below 1',
      () => ({ dropout: { probability: 1, keyLow: 0, keyHigh: 0, samples: zeros([2], 'int64') } }),
    ],
    [
      'a Philox key',
      'keyLow and keyHigh are -1 and 0, expected integers from 0',
      () => ({ dropout: { probability: 0.1, keyLow: -1, keyHigh: 0, samples: zeros([2], 'int64') } }),
    ],
    [
      'missing samples',
      'needs samples, the global sample numbers',
      () => ({ dropout: { probability: 0.1, keyLow: 0, keyHigh: 0 } }) as object,
    ],
    ['a window without causal', 'windowSize is 3 without causal', () => ({ visibility: { windowSize: 3 } })],
    [
      'a window of half a position',
      'windowSize is 0.5, expected an integer from 0',
      () => ({ visibility: { causal: true, windowSize: 0.5 } }),
    ],
    [
      'a window of -2',
      'windowSize is -2, expected an integer',
      () => ({ visibility: { causal: true, windowSize: -2 } }),
    ],
    [
      'a negative position',
      'firstQuery is -1 and firstKey 0, expected integers from 0',
      () => ({ visibility: { firstQuery: -1 } }),
    ],
    [
      'a position of half a key',
      'firstKey 0.5, expected integers from 0',
      () => ({ visibility: { firstKey: 0.5 } }),
    ],
  ])('%s', (_, message, options) => {
    expect(catchRefusal(() => attend(options()))).toContain(message);
  });

  it('a projection', () => {
    for (const shape of [
      [4, 2, 24],
      [4, 1, 2, 2, 8],
    ]) {
      const message = `a packed projection has shape [${shape.join(', ')}]`;
      expect(catchRefusal(() => splitProjection(zeros(shape)))).toContain(message);
    }
  });

  it.each<[string, number[]]>([
    ['no heads', [4, 1, 0, 8]],
    ['groups without heads', [4, 1, 2, 0, 8]],
  ])('a query with %s where keys have some', (_, shape) => {
    for (const device of ['cpu', 'reference', 'meta'] as const) {
      const of = (dims: readonly number[]) => zeros(dims, 'float32', device);
      const operands = () => ({
        query: of(shape),
        key: of([4, 1, 2, 8]),
        value: of([4, 1, 2, 8]),
        output: of([4, 1, 0, 8]),
        logSumExp: of([1, 0, 4]),
      });
      const gradients = () => ({
        queryGradient: of(shape),
        keyGradient: of([4, 1, 2, 8]),
        valueGradient: of([4, 1, 2, 8]),
        outputGradient: of([4, 1, 0, 8]),
      });
      const message = /MTL_SHAPE: .*query has 0 heads and key 2, expected at least one of each/;
      expect(catchRefusal(() => attentionForward(operands()))).toMatch(message);
      expect(catchRefusal(() => differentiateAttention({ ...operands(), ...gradients() }))).toMatch(message);
    }
  });

  it.each<[string, string, readonly [cache: number, valueCache: number, position: number]]>([
    [
      'a full cache',
      'position is 3, expected the 2 new positions to end at most at 4, the size of the cache',
      [8, 6, 3],
    ],
    ['a cache of keys', 'keyCache has shape [1, 1, 4, 6], expected [1, 1, 4, 8]', [6, 6, 0]],
    ['a cache of values', 'valueCache has shape [1, 1, 4, 8], expected [1, 1, 4, 6]', [8, 8, 0]],
  ])('%s', (_, message, [size, valueSize, position]) => {
    const call = () =>
      attentionCachedForward({
        keyCache: zeros([1, 1, 4, size]),
        valueCache: zeros([1, 1, 4, valueSize]),
        output: zeros([2, 1, 1, 6]),
        query: zeros([2, 1, 1, 8]),
        key: zeros([2, 1, 1, 8]),
        value: zeros([2, 1, 1, 6]),
        position,
      });
    expect(catchRefusal(call)).toContain(message);
  });
});

describe('attention with packed samples names what is wrong with', () => {
  const whole = { longest: 4, numScores: 16 };

  it.each<[string, string, Visibility]>([
    ['a position of queries', 'firstQuery is 2 and firstKey 0 with packed samples', { firstQuery: 2 }],
    ['a position of keys', 'firstQuery is 0 and firstKey 3 with packed samples', { firstKey: 3 }],
  ])('%s', (_, message, visibility) => {
    const call = () => attendPacked({ starts: int32([0, 4]), ...whole }, visibility);
    expect(catchRefusal(call)).toContain(message);
  });

  it('a mask of padding', () => {
    const call = () => attendPacked({ starts: int32([0, 4]), ...whole }, { keyMask: zeros([1, 4], 'uint8') });
    expect(catchRefusal(call)).toContain('keyMask is given with packed samples');
  });

  it('the number of scores', () => {
    const call = (numScores: number) => () => attendPacked({ starts: int32([0, 4]), longest: 4, numScores });
    for (const wrong of [-1, 3.5, 17, Number.NaN]) {
      const message = /numScores is \S+, expected the sum of the squares.* an integer from 0 to/;
      expect(catchRefusal(call(wrong))).toMatch(message);
    }
    const message = 'numScores is 12, expected 16, the sum of the squares of all lengths';
    expect(catchRefusal(call(12))).toContain(message);
    expect(() => tidy(call(16))).not.toThrow();
  });

  it.each([
    ['end behind the rows', [0, 130, 131, 196, 324, 400], 'from 0 to at most the 329 rows'],
    ['do not begin at 0', [1, 130, 131, 196, 324], 'starts go from 1'],
    ['go back', [0, 130, 129, 196, 324], 'sample 1 has rows 130 to 129'],
    ['hold a sample that is too long', [0, 131, 131, 196, 324], 'longest = 130'],
  ])('starts that %s', (_, starts, message) => {
    const numScores = 130 ** 2 + 1 + 65 ** 2 + 128 ** 2;
    const call = () => attendPacked({ starts: int32(starts), longest: 130, numScores }, {}, [329, 329]);
    expect(catchRefusal(call)).toMatch(/^MTL_ARGUMENT: /);
    expect(catchRefusal(call)).toContain(message);
  });

  it.each<[string, () => Omit<PackedSamples, 'starts'>, RegExp]>([
    ['queries without rows of their own', () => ({ longest: 4, numScores: 25 }), /key.*expected \[3, 2, 8\]/],
    [
      'queries beyond the rows',
      () => ({ longest: 4, numScores: 10, queries: { starts: int32([0, 1, 4]), longest: 3 } }),
      /queryStarts go from 0 to 4, expected from 0 to at most the 3 rows/,
    ],
    [
      'more queries than the longest',
      () => ({ longest: 4, numScores: 10, queries: { starts: int32([0, 1, 3]), longest: 1 } }),
      /queryStarts: sample 1 has rows 1 to 3, expected 0 to longest = 1/,
    ],
    [
      'a wrong number of scores',
      () => ({ longest: 4, numScores: 9, queries: { starts: int32([0, 1, 3]), longest: 2 } }),
      /numScores is 9, expected 10/,
    ],
    [
      'a query before its sample',
      () => {
        const queries = { starts: int32([0, 1, 3]), longest: 2, first: int32([2, -1]) };
        return { longest: 4, numScores: 10, queries };
      },
      /firstQueries\[1\] is -1, expected a position/,
    ],
    [
      'keys before their sequence',
      () => {
        const queries = { starts: int32([0, 1, 3]), longest: 2 };
        return { longest: 4, numScores: 10, first: int32([0, -3]), queries };
      },
      /firstKeys\[1\] is -3, expected a position/,
    ],
  ])('%s', (_, packed, message) => {
    expect(catchRefusal(() => attendPacked({ starts: int32([0, 4, 7]), ...packed() }, {}, [3, 7]))).toMatch(
      message,
    );
  });
});

describe('results of attention', () => {
  /** Calls both directions on operands of one dtype with results of others. */
  function call(
    output: DType,
    gradients: DType,
    { of = 'bfloat16' as DType, accumulate = false, key = gradients } = {},
  ) {
    const rows = (dtype: DType) => zeros([3, 1, 1, 8], dtype);
    const operands = {
      query: rows(of),
      key: rows(of),
      value: rows(of),
      output: rows(output),
      logSumExp: zeros([1, 1, 3]),
    };
    attentionForward(operands);
    differentiateAttention({
      ...operands,
      outputGradient: rows(of),
      queryGradient: rows(gradients),
      keyGradient: rows(key),
      valueGradient: rows(gradients),
      accumulate,
    });
  }

  it.each<[string, Parameters<typeof call>, string]>([
    ['an output of another type', ['float16', 'bfloat16'], 'output is float16, expected bfloat16 or float32'],
    [
      'an output of fewer bits',
      ['bfloat16', 'float32', { of: 'float32' }],
      'output is bfloat16, expected float32',
    ],
    [
      'gradients of another type',
      ['bfloat16', 'float16'],
      'queryGradient is float16, expected bfloat16 or float32',
    ],
    [
      'gradients of two types',
      ['bfloat16', 'float32', { key: 'bfloat16' }],
      'keyGradient is bfloat16, expected float32',
    ],
    [
      'adding to gradients of 16 bits',
      ['bfloat16', 'bfloat16', { accumulate: true }],
      'queryGradient is bfloat16, expected float32',
    ],
  ])('may not be %s', (_, dtypes, message) => {
    expect(catchRefusal(() => call(...dtypes))).toContain(message);
  });

  it('may be float32 over operands of 16 bits', () => {
    const allowed: ReadonlyArray<Parameters<typeof call>> = [
      ['float32', 'float32'],
      ['bfloat16', 'float32', { accumulate: true }],
      ['float32', 'float16', { of: 'float16' }],
    ];
    for (const dtypes of allowed) {
      expect(() => tidy(() => call(...dtypes))).not.toThrow();
    }
  });
});
