import { afterEach, describe, expect, it } from 'vitest';
import {
  type AttentionOptions,
  attentionCachedForward,
  attentionForward,
  countedFlops,
  type Device,
  type DType,
  hostInformation,
  instructionSets,
  resetCountedFlops,
  setInstructionSet,
  setNumThreads,
  splitProjection,
  Tensor,
  tidy,
} from '../src/index.js';
import { uniformStream } from './op-cases/case-tensors.js';
import { differentiateAttention } from './support/differentiate-attention.js';
import { projectedBackward, projectedForward } from './support/projected-attention.js';

const { numThreads: defaultThreads, detectedInstructionSet: detected } = hostInformation();
afterEach(() => {
  setNumThreads(defaultThreads);
  setInstructionSet(detected);
});

interface Problem {
  /** [S, B, A, D] */
  readonly sizes: readonly [number, number, number, number];
  readonly dtype?: DType;
  readonly device?: Device;
  /** The first head that this process holds; `firstSample` is its first sample. */
  readonly firstHead?: number;
  readonly firstSample?: number;
  /** The number of heads of all processes; `allSamples` is the number of their samples. */
  readonly allHeads?: number;
  readonly allSamples?: number;
  readonly probability?: number;
}

/** Returns a value of the global tensor, which does not depend on the part that a process holds. */
function element(seed: number, coordinates: readonly number[]): number {
  const next = uniformStream(coordinates.reduce((mixed, part) => Math.imul(mixed, 31) + part, seed));
  next();
  return next() * 2 - 1;
}

const memory = new Map<string, readonly number[]>();

/** Returns the part of a global tensor that starts at `offsets`. */
function valuesOf(seed: number, shape: readonly number[], offsets: readonly number[]): readonly number[] {
  const key = JSON.stringify([seed, shape, offsets]);
  const known = memory.get(key);
  if (known !== undefined) return known;
  const size = shape.reduce((product, dim) => product * dim, 1);
  const values = Array.from({ length: size }, (_, flat) => {
    const coordinates: number[] = [];
    let rest = flat;
    for (let dim = shape.length - 1; dim >= 0; dim--) {
      coordinates[dim] = (rest % shape[dim]!) + (offsets[dim] ?? 0);
      rest = Math.floor(rest / shape[dim]!);
    }
    return element(seed, coordinates);
  });
  memory.set(key, values);
  return values;
}

function filled(
  seed: number,
  shape: readonly number[],
  offsets: readonly number[],
  options: Problem,
): Tensor {
  return Tensor.from(valuesOf(seed, shape, offsets), {
    shape,
    dtype: options.dtype ?? 'float32',
    device: options.device ?? 'cpu',
  });
}

interface Results {
  readonly output: Float32Array;
  readonly logSumExp: Float32Array;
  readonly qkvGradient: Float32Array;
}

function run(problem: Problem, options: AttentionOptions = {}): Results {
  const [sequence, batch, heads, size] = problem.sizes;
  const { firstHead = 0, firstSample = 0, probability = 0, device = 'cpu', dtype = 'float32' } = problem;
  const offsets = [0, firstSample, firstHead];
  return tidy(() => {
    const qkv = filled(1, [sequence, batch, heads, 3, size], offsets, problem);
    const outputGradient = filled(2, [sequence, batch, heads, size], offsets, problem);
    const output = Tensor.empty({ shape: outputGradient.shape, dtype, device });
    const logSumExp = Tensor.empty({ shape: [batch, heads, sequence], dtype: 'float32', device });
    const qkvGradient = Tensor.empty({ shape: qkv.shape, dtype, device });
    const samples = Tensor.from(
      BigInt64Array.from({ length: batch }, (_, index) => BigInt(firstSample + index)),
      { shape: [batch], dtype: 'int64', device },
    );
    const dropout = { probability, keyLow: 7, keyHigh: 8, samples, headOffset: firstHead };
    const call = { output, logSumExp, qkv, visibility: { causal: true }, dropout, ...options };
    projectedForward(call);
    projectedBackward({ ...call, outputGradient, qkvGradient });
    return {
      output: output.read<'float32'>(),
      logSumExp: logSumExp.read<'float32'>(),
      qkvGradient: qkvGradient.read<'float32'>(),
    };
  });
}

function largestDifference(left: ArrayLike<number>, right: ArrayLike<number>): number {
  let largest = 0;
  for (let index = 0; index < left.length; index++) {
    largest = Math.max(largest, Math.abs(left[index]! - right[index]!));
  }
  return largest;
}

describe('attention', () => {
  it.each([
    [2, 3],
    [1, 1],
  ])('repeats bitwise with batch %i and %i heads', (batch, heads) => {
    for (const threads of [1, 2, 3]) {
      setNumThreads(threads);
      const problem = { sizes: [130, batch, heads, 16], probability: 0.2 } as const;
      const first = run(problem);
      for (let repetition = 0; repetition < 5; repetition++) expect(run(problem)).toEqual(first);
    }
  });

  it('gives the same output whatever the number of threads, and gradients but for the order of sums', () => {
    const problem = { sizes: [300, 1, 1, 48], probability: 0.2 } as const;
    setNumThreads(1);
    const one = run(problem);
    setNumThreads(4);
    const four = run(problem);
    expect(four.output).toEqual(one.output);
    expect(four.logSumExp).toEqual(one.logSumExp);
    // query gradients are summed in parts, enough to keep the threads busy: 300 terms of size 0.1, in float32
    expect(largestDifference(four.qkvGradient, one.qkvGradient)).toBeLessThan(1e-6);
  });

  it('drops the same probabilities however heads and samples are distributed', () => {
    const [sequence, batch, heads, size] = [70, 3, 4, 16];
    const whole = run({ sizes: [sequence, batch, heads, size], probability: 0.5 });
    for (let sample = 0; sample < batch; sample++) {
      for (const firstHead of [0, 2]) {
        const part = run({
          sizes: [sequence, 1, 2, size],
          firstHead,
          firstSample: sample,
          probability: 0.5,
        });
        const expected: number[] = [];
        for (let position = 0; position < sequence; position++) {
          const start = ((position * batch + sample) * heads + firstHead) * size;
          expected.push(...whole.output.subarray(start, start + 2 * size));
        }
        expect([...part.output]).toEqual(expected);
      }
    }
  });

  it('keeps the share of probabilities that it should', () => {
    tidy(() => {
      // Every key has the same score and every value is 1: the output is the kept fraction divided by the
      // keep probability.
      const [sequence, batch, heads, size] = [256, 4, 4, 16];
      const shape = [sequence, batch, heads, 3, size];
      const qkv = Tensor.from(
        Array.from({ length: sequence * batch * heads * 3 * size }, (_, index) =>
          Math.floor(index / size) % 3 === 2 ? 1 : 0,
        ),
        { shape, dtype: 'float32' },
      );
      const output = Tensor.empty({ shape: [sequence, batch, heads, size], dtype: 'float32' });
      const logSumExp = Tensor.empty({ shape: [batch, heads, sequence], dtype: 'float32' });
      const samples = Tensor.from(BigInt64Array.from([0n, 1n, 2n, 3n]), { shape: [4], dtype: 'int64' });
      projectedForward({
        output,
        logSumExp,
        qkv,
        dropout: { probability: 0.3, keyLow: 1, keyHigh: 2, samples },
      });
      const values = output.toArray();
      const mean = values.reduce((total, value) => total + value, 0) / values.length;
      // 2^20 independent decisions: a standard deviation of sqrt(0.3 / 0.7 / 2^20) = 6.4e-4
      expect(Math.abs(mean - 1)).toBeLessThan(4 * 6.4e-4);
    });
  });

  it('agrees with the reference for all head sizes from 1 to 40 and around 128', () => {
    const headSizes = [...Array.from({ length: 40 }, (_, index) => index + 1), 100, 127, 128, 130];
    for (const size of headSizes) {
      const sizes = [19, 1, 1, size] as const;
      const expected = run({ sizes, device: 'reference' });
      const actual = run({ sizes });
      // values in [-1, 1]: sums of up to 130 products, and gradients of size 1
      expect(largestDifference(actual.output, expected.output), `D = ${size}`).toBeLessThan(3e-6);
      expect(largestDifference(actual.qkvGradient, expected.qkvGradient), `D = ${size}`).toBeLessThan(1e-5);
    }
  });

  it('survives scores that overflow a naive exponential', () => {
    const expected = run({ sizes: [80, 1, 1, 64], device: 'reference' }, { scale: 100 });
    const actual = run({ sizes: [80, 1, 1, 64] }, { scale: 100 });
    // scores of size 1000 carry a float32 rounding error of 3e-5, which is the relative error of a
    // probability
    expect(largestDifference(actual.output, expected.output)).toBeLessThan(1e-3);
    expect(actual.qkvGradient.every(Number.isFinite)).toBe(true);
  });

  it.each(instructionSets.slice(0, instructionSets.indexOf(detected) + 1))(
    'shows NaN and infinity where they belong, with %s kernels',
    (instructionSet) => {
      setInstructionSet(instructionSet);
      for (const [part, value] of [0, 1, 2].flatMap(
        (index) =>
          [
            [index, Number.NaN],
            [index, Infinity],
          ] as const,
      )) {
        const finite = (['cpu', 'reference'] as const).map((device) =>
          tidy(() => {
            const [sequence, size] = [70, 8];
            const values = [...valuesOf(1, [sequence, 1, 1, 3, size], [])];
            values[(20 * 3 + part) * size] = value; // of position 20
            const qkv = Tensor.from(values, { shape: [sequence, 1, 1, 3, size], dtype: 'float32', device });
            const output = Tensor.empty({ shape: [sequence, 1, 1, size], dtype: 'float32', device });
            const logSumExp = Tensor.empty({ shape: [1, 1, sequence], dtype: 'float32', device });
            const qkvGradient = Tensor.empty({ shape: qkv.shape, dtype: 'float32', device });
            projectedForward({ output, logSumExp, qkv, visibility: { causal: true } });
            projectedBackward({
              qkvGradient,
              outputGradient: output,
              output,
              logSumExp,
              qkv,
              visibility: { causal: true },
            });
            return [output.toArray().map(Number.isFinite), qkvGradient.toArray().every(Number.isFinite)];
          }),
        );
        expect(finite[0], `part ${part}, ${value}`).toEqual(finite[1]);
      }
    },
  );

  it('gives zeros to a query that sees no key', () => {
    tidy(() => {
      const qkv = filled(1, [5, 1, 1, 3, 8], [], { sizes: [5, 1, 1, 8] });
      const output = Tensor.empty({ shape: [5, 1, 1, 8], dtype: 'float32' });
      const logSumExp = Tensor.empty({ shape: [1, 1, 5], dtype: 'float32' });
      const keyMask = Tensor.zeros({ shape: [1, 5], dtype: 'uint8' });
      const outputGradient = filled(2, [5, 1, 1, 8], [], { sizes: [5, 1, 1, 8] });
      const qkvGradient = Tensor.empty({ shape: qkv.shape, dtype: 'float32' });
      projectedForward({ output, logSumExp, qkv, visibility: { keyMask } });
      projectedBackward({ qkvGradient, outputGradient, output, logSumExp, qkv, visibility: { keyMask } });
      expect(output.toArray().every((value) => value === 0)).toBe(true);
      expect(qkvGradient.toArray().every((value) => value === 0)).toBe(true);
      expect(logSumExp.toArray()[0]).toBeCloseTo(-1e30, -25);
    });
  });

  it('decodes a sequence step by step to what one causal pass gives', () => {
    tidy(() => {
      const [sequence, batch, heads, size] = [150, 2, 2, 24];
      const qkv = filled(1, [sequence, batch, heads, 3, size], [], { sizes: [sequence, batch, heads, size] });
      const output = Tensor.empty({ shape: [sequence, batch, heads, size], dtype: 'float32' });
      const logSumExp = Tensor.empty({ shape: [batch, heads, sequence], dtype: 'float32' });
      projectedForward({ output, logSumExp, qkv, visibility: { causal: true } });
      const cache = { shape: [batch, heads, sequence, size], dtype: 'float32' } as const;
      const keyCache = Tensor.empty(cache);
      const valueCache = Tensor.empty(cache);
      const decoded = Tensor.empty({ shape: output.shape, dtype: 'float32' });
      for (let position = 0; position < sequence; ) {
        const end = position < 100 ? position + 100 : position + 1;
        attentionCachedForward({
          keyCache,
          valueCache,
          output: decoded.rows(position, end),
          ...splitProjection(qkv.rows(position, end)),
          position,
        });
        position = end;
      }
      // the same float32 arithmetic over tiles that begin elsewhere: rounding of means of values in [-1, 1]
      expect(largestDifference(decoded.read<'float32'>(), output.read<'float32'>())).toBeLessThan(1e-6);
    });
  });

  it('leaves a cache as it is where there are no new positions', () => {
    tidy(() => {
      const cache = { shape: [1, 2, 4, 8], dtype: 'float32' } as const;
      const [keyCache, valueCache] = [Tensor.zeros(cache), Tensor.zeros(cache)];
      const qkv = Tensor.zeros({ shape: [0, 1, 2, 3, 8], dtype: 'float32' });
      const output = Tensor.empty({ shape: [0, 1, 2, 8], dtype: 'float32' });
      for (const position of [0, 3, 4]) {
        attentionCachedForward({ keyCache, valueCache, output, ...splitProjection(qkv), position });
      }
      expect([...keyCache.toArray(), ...valueCache.toArray()]).toEqual(new Array(128).fill(0));
    });
  });

  it('counts the model FLOPs of Narayanan et al. 2021', () => {
    resetCountedFlops();
    const [sequence, batch, heads, size] = [10, 2, 3, 4] as const;
    run({ sizes: [sequence, batch, heads, size] });
    expect(countedFlops()).toBe(12 * batch * heads * sequence * sequence * size);
    resetCountedFlops();
  });
});

describe('attention names what is wrong', () => {
  const sizes = [4, 2, 1, 8] as const;

  function attempt(
    change: (tensors: { qkv: Tensor; logSumExp: Tensor }) => Partial<AttentionOptions> & object,
  ): void {
    tidy(() => {
      const qkv = filled(1, [4, 2, 1, 3, 8], [], { sizes });
      const output = Tensor.empty({ shape: [...sizes], dtype: 'float32' });
      const logSumExp = Tensor.empty({ shape: [2, 1, 4], dtype: 'float32' });
      projectedForward({ output, logSumExp, qkv, ...change({ qkv, logSumExp }) });
    });
  }

  it.each<[string, RegExp, () => object]>([
    ['scale', /scale is 0, expected a finite number above 0/, () => ({ scale: 0 })],
    [
      'rank',
      /key has 3 dimensions, expected 4/,
      () => ({ qkv: Tensor.zeros({ shape: [4, 2, 3, 8], dtype: 'float32' }) }),
    ],
    [
      'projection',
      /a packed projection has shape \[4, 2, 24\]/,
      () => ({ qkv: Tensor.zeros({ shape: [4, 2, 24], dtype: 'float32' }) }),
    ],
    [
      'statistics',
      /logSumExp has shape \[4, 2, 1\], expected \[2, 1, 4\]/,
      () => ({ logSumExp: Tensor.zeros({ shape: [4, 2, 1], dtype: 'float32' }) }),
    ],
    [
      'mask dtype',
      /keyMask is int32, expected uint8/,
      () => ({ visibility: { keyMask: Tensor.zeros({ shape: [2, 4], dtype: 'int32' }) } }),
    ],
    [
      'probability',
      /dropoutProbability is 1, expected 0 or more and below 1/,
      () => ({
        dropout: {
          probability: 1,
          keyLow: 0,
          keyHigh: 0,
          samples: Tensor.zeros({ shape: [2], dtype: 'int64' }),
        },
      }),
    ],
    [
      'key',
      /keyLow and keyHigh are -1 and 0, expected integers from 0/,
      () => ({
        dropout: {
          probability: 0.1,
          keyLow: -1,
          keyHigh: 0,
          samples: Tensor.zeros({ shape: [2], dtype: 'int64' }),
        },
      }),
    ],
    [
      'samples',
      /needs samples, the global sample numbers/,
      () => ({ dropout: { probability: 0.1, keyLow: 0, keyHigh: 0 } }),
    ],
  ])('%s', (_, message, change) => {
    expect(() => attempt(change)).toThrow(message);
  });

  it.each<[string, number[]]>([
    ['no heads', [4, 1, 0, 8]],
    ['groups without heads', [4, 1, 2, 0, 8]],
  ])('a query with %s where keys have some', (_, shape) => {
    for (const device of ['cpu', 'reference', 'meta'] as const) {
      tidy(() => {
        const zeros = (of: number[]): Tensor => Tensor.zeros({ shape: of, dtype: 'float32', device });
        const operands = {
          query: zeros(shape),
          key: zeros([4, 1, 2, 8]),
          value: zeros([4, 1, 2, 8]),
          output: zeros([4, 1, 0, 8]),
          logSumExp: zeros([1, 0, 4]),
        };
        const gradients = {
          queryGradient: zeros(shape),
          keyGradient: zeros([4, 1, 2, 8]),
          valueGradient: zeros([4, 1, 2, 8]),
          outputGradient: zeros([4, 1, 0, 8]),
        };
        const refused = expect.objectContaining({
          code: 'MTL_SHAPE',
          message: expect.stringContaining('query has 0 heads and key 2, expected at least one of each'),
        });
        expect(() => attentionForward(operands)).toThrow(refused);
        expect(() => differentiateAttention({ ...operands, ...gradients })).toThrow(refused);
      });
    }
  });

  it('a cache that is full', () => {
    tidy(() => {
      const cache = { shape: [1, 1, 4, 8], dtype: 'float32' } as const;
      const qkv = Tensor.zeros({ shape: [2, 1, 1, 3, 8], dtype: 'float32' });
      const output = Tensor.empty({ shape: [2, 1, 1, 8], dtype: 'float32' });
      expect(() =>
        attentionCachedForward({
          keyCache: Tensor.zeros(cache),
          valueCache: Tensor.zeros(cache),
          output,
          ...splitProjection(qkv),
          position: 3,
        }),
      ).toThrow(/position is 3, expected the 2 new positions to end at most at 4, the size of the cache/);
    });
  });
});
