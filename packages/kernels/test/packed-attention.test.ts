import { describe, expect, it } from 'vitest';
import { countedFlops, resetCountedFlops, Tensor, tidy } from '../src/index.js';
import { uniformStream } from './op-cases/case-tensors.js';
import { projectedBackward, projectedForward } from './support/projected-attention.js';

const [sequence, heads, headSize] = [130, 2, 16];
const lengths = [130, 1, 65, 128];
const batch = lengths.length;
const starts = [0, 130, 131, 196, 324];
const rows = starts.at(-1)! + 5;
const samples = BigInt64Array.of(7n, 2n ** 33n, 0n, 12n);

/** Returns `width` numbers for (position, sample), the same when padded and when packed. */
function vectorOf(seed: number, [position, sample]: readonly [number, number], width: number): number[] {
  const next = uniformStream(seed * 7919 + position * 31 + sample);
  return Array.from({ length: width }, () => next() * 2 - 1);
}

function padded(seed: number, width: number): number[] {
  return Array.from({ length: sequence * batch }, (_, index) =>
    vectorOf(seed, [Math.floor(index / batch), index % batch], width),
  ).flat();
}

/** Packs rows of [S, B, width]; rows of no sample are zeros. */
function pack(values: ArrayLike<number>, width: number): number[] {
  const packed = new Array<number>(rows * width).fill(0);
  lengths.forEach((length, sample) => {
    for (let position = 0; position < length; position++) {
      const [from, to] = [(position * batch + sample) * width, (starts[sample]! + position) * width];
      for (let column = 0; column < width; column++) packed[to + column] = values[from + column]!;
    }
  });
  return packed;
}

const widths = { qkv: heads * 3 * headSize, output: heads * headSize };

function attendPadded(dtype: 'float32' | 'bfloat16', probability: number): number[][] {
  return tidy(() => {
    const qkv = Tensor.from(padded(1, widths.qkv), { shape: [sequence, batch, heads, 3, headSize], dtype });
    // the output gradient of padding is 0
    const gradients = padded(2, widths.output).map((value, index) => {
      const row = Math.floor(index / widths.output);
      return Math.floor(row / batch) < lengths[row % batch]! ? value : 0;
    });
    const outputGradient = Tensor.from(gradients, { shape: [sequence, batch, heads, headSize], dtype });
    const mask = lengths.flatMap((length) =>
      Array.from({ length: sequence }, (_, key) => Number(key < length)),
    );
    const output = Tensor.empty({ shape: outputGradient.shape, dtype });
    const logSumExp = Tensor.empty({ shape: [batch, heads, sequence], dtype: 'float32' });
    const qkvGradient = Tensor.empty({ shape: qkv.shape, dtype });
    const options = {
      output,
      logSumExp,
      qkv,
      visibility: { keyMask: Tensor.from(mask, { shape: [batch, sequence], dtype: 'uint8' }) },
      dropout: {
        probability,
        keyLow: 3,
        keyHigh: 4,
        headOffset: 1,
        samples: Tensor.from(samples, { shape: [batch], dtype: 'int64' }),
      },
    };
    projectedForward(options);
    projectedBackward({ ...options, qkvGradient, outputGradient });
    return [pack(output.toArray(), widths.output), pack(qkvGradient.toArray(), widths.qkv)];
  }) as number[][];
}

function attendPacked(dtype: 'float32' | 'bfloat16', probability: number): number[][] {
  return tidy(() => {
    const make = (values: number[], shape: readonly number[]) => Tensor.from(values, { shape, dtype });
    const qkv = make(pack(padded(1, widths.qkv), widths.qkv), [rows, heads, 3, headSize]);
    const outputGradient = make(pack(padded(2, widths.output), widths.output), [rows, heads, headSize]);
    const output = Tensor.empty({ shape: outputGradient.shape, dtype });
    const logSumExp = Tensor.empty({ shape: [heads, rows], dtype: 'float32' });
    const qkvGradient = Tensor.empty({ shape: qkv.shape, dtype });
    const options = {
      output,
      logSumExp,
      qkv,
      visibility: { packed: packedSamples(starts) },
      dropout: {
        probability,
        keyLow: 3,
        keyHigh: 4,
        headOffset: 1,
        samples: Tensor.from(samples, { shape: [batch], dtype: 'int64' }),
      },
    };
    projectedForward(options);
    projectedBackward({ ...options, qkvGradient, outputGradient });
    return [output.toArray(), qkvGradient.toArray()];
  }) as number[][];
}

function packedSamples(values: readonly number[]) {
  return {
    starts: Tensor.from(values, { shape: [values.length], dtype: 'int32' }),
    longest: Math.max(...lengths),
    numScores: lengths.reduce((sum, length) => sum + length ** 2, 0),
  };
}

describe('packed attention', () => {
  it.each([
    ['float32', 0],
    ['float32', 0.3],
    ['bfloat16', 0.3],
  ] as const)('computes the bits of attention with padding: %s, dropout %d', (dtype, probability) => {
    const [expected, actual] = [attendPadded(dtype, probability), attendPacked(dtype, probability)];
    expect(actual).toEqual(expected);
  });

  it('counts what is computed', () => {
    resetCountedFlops();
    attendPacked('float32', 0);
    const scores = lengths.reduce((sum, length) => sum + length ** 2, 0);
    // two matmuls forward, four backward
    expect(countedFlops()).toBe(6 * 2 * heads * headSize * scores);
  });

  it.each([
    ['end behind the rows', [0, 130, 131, 196, 324, 400], 'from 0 to at most the 329 rows'],
    ['do not begin at 0', [1, 130, 131, 196, 324], 'starts go from 1'],
    ['go back', [0, 130, 129, 196, 324], 'sample 1 has rows 130 to 129'],
    ['hold a sample that is too long', [0, 131, 131, 196, 324], 'longest = 130'],
  ])('refuses starts that %s', (_, wrong, message) => {
    tidy(() => {
      const output = Tensor.empty({ shape: [rows, heads, headSize], dtype: 'float32' });
      const logSumExp = Tensor.empty({ shape: [heads, rows], dtype: 'float32' });
      const qkv = Tensor.zeros({ shape: [rows, heads, 3, headSize], dtype: 'float32' });
      const attend = () =>
        projectedForward({ output, logSumExp, qkv, visibility: { packed: packedSamples(wrong) } });
      expect(attend).toThrow(
        expect.objectContaining({
          code: 'MTL_ARGUMENT',
          message: expect.stringContaining(message) as string,
        }),
      );
    });
  });
});
