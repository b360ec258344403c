import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  biasSquaredReluBackward,
  cast,
  numLiveTensors,
  queriesAndKeys,
  type RotaryScaling,
  type RotaryTableOptions,
  rmsNormBackward,
  rmsNormForward,
  rotaryEmbedding,
  rotaryFrequencies,
  rotaryTable,
  Tensor,
  tidy,
  type YarnScaling,
} from '../src/index.js';

let live: number;
beforeEach(() => {
  live = numLiveTensors();
});
afterEach(() => expect(numLiveTensors()).toBe(live));

const llama3: RotaryScaling = {
  kind: 'llama3',
  factor: 8,
  lowFrequencyFactor: 1,
  highFrequencyFactor: 4,
  originalPositions: 8192,
};

/** YaRN that extends the 4096 positions of pretraining forty times. */
const yarn: YarnScaling = {
  kind: 'yarn',
  factor: 40,
  originalPositions: 4096,
  betaFast: 32,
  betaSlow: 1,
  roundsRange: true,
  concentration: 1,
};

describe('rotaryFrequencies', () => {
  it('fall from 1 to almost 1 / base', () => {
    const frequencies = rotaryFrequencies({ rotarySize: 8, base: 10000 });
    expect([...frequencies]).toEqual([1, Math.fround(0.1), Math.fround(0.01), Math.fround(0.001)]);
  });

  it('are scaled by a larger base: the highest not, the lowest by the whole factor (NTK-aware)', () => {
    const [rotarySize, base, factor] = [64, 10_000, 4];
    const plain = rotaryFrequencies({ rotarySize, base });
    const scaled = rotaryFrequencies({ rotarySize, base: base * factor ** (rotarySize / (rotarySize - 2)) });
    expect(scaled[0]).toBe(plain[0]);
    // the bound is a few roundings in float32
    expect(Math.abs((factor * scaled[31]!) / plain[31]! - 1)).toBeLessThan(1e-6);
  });

  it('are divided by a linear factor', () => {
    const options = { rotarySize: 6, base: 500 };
    const scaled = rotaryFrequencies({ ...options, scaling: { kind: 'linear', factor: 4 } });
    expect([...scaled]).toEqual([...rotaryFrequencies(options)].map((frequency) => frequency / 4));
  });

  it('of Llama 3.1 are kept for short waves, divided for long ones, and between them in the middle', () => {
    const options = { rotarySize: 128, base: 500000 };
    const plain = rotaryFrequencies(options);
    rotaryFrequencies({ ...options, scaling: llama3 }).forEach((frequency, i) => {
      const wavelength = (2 * Math.PI) / plain[i]!;
      const ratio = frequency / plain[i]!;
      if (wavelength < 8192 / 4) expect(ratio).toBe(1);
      else if (wavelength > 8192) expect(ratio).toBe(1 / 8);
      else expect(Math.abs(ratio - (1 / 8 + (7 / 8) * ((8192 / wavelength - 1) / 3)))).toBeLessThan(1e-6); // float32
    });
  });

  describe('of YaRN', () => {
    const options = { rotarySize: 64, base: 10_000 };
    const plain = rotaryFrequencies(options);
    const ratios = (changes: Partial<YarnScaling> = {}): number[] =>
      [...rotaryFrequencies({ ...options, scaling: { ...yarn, ...changes } })].map(
        (frequency, i) => frequency / plain[i]!,
      );

    it('are kept up to index 10, divided from index 23, and mixed linearly between', () => {
      // the bound is a few roundings in float32, by 2^-24 each
      ratios().forEach((ratio, i) => {
        const share = Math.min(Math.max((i - 10) / 13, 0), 1);
        expect(Math.abs(ratio / (share / 40 + 1 - share) - 1), `${i}`).toBeLessThan(1e-6);
      });
      const known = { 10: 0.0562341, 16: 0.0055, 22: 1.778279e-4, 23: 3.333804e-5 };
      const frequencies = rotaryFrequencies({ ...options, scaling: yarn });
      for (const [i, frequency] of Object.entries(known))
        expect(Math.abs(frequencies[Number(i)]! / frequency - 1), i).toBeLessThan(1e-6);
    });

    it('are mixed between fractions of indices where the range is not widened', () => {
      ratios({ roundsRange: false }).forEach((ratio, i) => {
        const share = Math.min(Math.max((i - 10.4722) / (22.5134 - 10.4722), 0), 1);
        // the ends of the range are given with four decimals here
        expect(Math.abs(ratio / (share / 40 + 1 - share) - 1), `${i}`).toBeLessThan(1e-4);
      });
    });

    it('change at once where the range has one index, and end with the last element', () => {
      // both ends are below the first index
      const short = ratios({ originalPositions: 6 });
      expect(short[0]).toBe(1);
      for (const ratio of short.slice(1)) expect(Math.abs(40 * ratio - 1)).toBeLessThan(1e-6);
      // the range counts elements, so the last pair is not divided completely
      const long = ratios({ originalPositions: 1e6, betaSlow: 1e-9 });
      expect(Math.abs(long[31]! - (1 - (39 / 40) * ((31 - 29) / (63 - 29))))).toBeLessThan(1e-6);
    });

    it('match other positions where the factor is 1', () => {
      for (const ratio of ratios({ factor: 1 })) expect(Math.abs(ratio - 1)).toBeLessThan(2e-7);
    });
  });
});

describe('rotaryTable', () => {
  it('has cosines, then sines, of position times frequency', () => {
    using table = rotaryTable({ numPositions: 3, rotarySize: 4, base: 100 });
    const angles = [0, 1, 2].map((position) => [position, Math.fround(position * Math.fround(0.1))]);
    const expected = angles.flatMap((row) => [...row.map(Math.cos), ...row.map(Math.sin)]);
    expect(table.toArray()).toEqual(expected.map(Math.fround));
  });

  it('multiplies both by the concentration of YaRN, before they are rounded', () => {
    const options = { numPositions: 5, rotarySize: 4, base: 100 };
    using table = rotaryTable({ ...options, scaling: { ...yarn, factor: 1, concentration: 1.3688879 } });
    const angles = [0, 1, 2, 3, 4].map((position) => [position, Math.fround(position * Math.fround(0.1))]);
    const expected = angles.flatMap((row) => [...row.map(Math.cos), ...row.map(Math.sin)]);
    expect(table.toArray()).toEqual(expected.map((value) => Math.fround(1.3688879 * value)));
  });

  it.each(['meta', 'meta-cuda'] as const)('takes memory and no time on device %s', (device) => {
    using table = rotaryTable({ numPositions: 2 ** 40, rotarySize: 128, base: 10000, device });
    expect(table.shape).toEqual([2 ** 40, 128]);
  });

  const good: RotaryTableOptions = { numPositions: 4, rotarySize: 8, base: 10000 };
  it.each<[string, Partial<RotaryTableOptions>, string]>([
    ['an odd size', { rotarySize: 7 }, '7 elements of a head are rotated'],
    ['no size', { rotarySize: 0 }, '0 elements of a head are rotated'],
    ['a base of 0', { base: 0 }, 'base is 0'],
    ['an infinite base', { base: Number.POSITIVE_INFINITY }, 'base is Infinity'],
    ['no positions', { numPositions: 0 }, 'a table of 0 positions'],
    ['half a position', { numPositions: 1.5 }, 'a table of 1.5 positions'],
    ['a factor of 0', { scaling: { kind: 'linear', factor: 0 } }, 'scaling.factor is 0'],
    [
      'an unknown scaling',
      { scaling: { kind: 'dynamic', factor: 2 } as unknown as RotaryScaling },
      'scaling.kind is dynamic',
    ],
    ['a base of 1 of YaRN', { base: 1, scaling: yarn }, 'base is 1'],
    ['no concentration', { scaling: { ...yarn, concentration: 0 } }, 'scaling.concentration is 0'],
    [
      'a range of neither kind',
      { scaling: { ...yarn, roundsRange: undefined } as unknown as RotaryScaling },
      'scaling.roundsRange is undefined',
    ],
    [
      'turns in disorder',
      { scaling: { ...yarn, betaSlow: 33 } },
      'scaling.betaFast is 32, scaling.betaSlow 33',
    ],
    [
      'factors in disorder',
      { scaling: { ...llama3, lowFrequencyFactor: 4 } as RotaryScaling },
      'scaling.highFrequencyFactor is 4, scaling.lowFrequencyFactor 4',
    ],
  ])('refuses %s', (_, wrong, message) => {
    expect(() => rotaryTable({ ...good, ...wrong })).toThrow(
      expect.objectContaining({ code: 'MTL_ARGUMENT', message: `rotary embedding: ${message}` }),
    );
  });
});

const values = (count: number): number[] => Array.from({ length: count }, (_, i) => Math.sin(3 * i + 1));

describe('operations in place', () => {
  const [shape, dtype] = [[2, 3, 2, 4, 6], 'float32'] as const;
  const size = 2 * 3 * 2 * 4 * 6;

  it.each([false, true])('rotates and rotates back, interleaved %s', (interleaved) => {
    tidy(() => {
      const qkv = Tensor.from(values(size), { shape, dtype });
      const view = queriesAndKeys(qkv);
      const positions = Tensor.from([0, 1, 2, 3, 4, 5], { shape: [2, 3], dtype: 'int32' });
      const table = rotaryTable({ numPositions: 6, rotarySize: 4, base: 100 });
      const operands = { output: view, input: view, positions, table, interleaved };
      rotaryEmbedding(operands);
      const rotated = qkv.toArray();
      rotaryEmbedding({ ...operands, inverse: true });
      qkv.toArray().forEach((value, i) => {
        // the bound is two rotations in float32
        expect(Math.abs(value - Math.fround(values(size)[i]!))).toBeLessThan(3e-7);
        // the last two elements of a head, the values of a group, and position 0 are not rotated
        const isRotated = i % 6 < 4 && Math.floor(i / 6) % 4 < 3 && i >= size / 6;
        expect(rotated[i] !== Math.fround(values(size)[i]!), `${i}`).toBe(isRotated);
      });
    });
  });

  it.each(['cpu', 'reference'] as const)('write gradients over gradients on %s', (device) => {
    tidy(() => {
      const make = (offset: number): Tensor =>
        Tensor.from(
          values(34).map((value) => value + offset),
          { shape: [2, 17], dtype, device },
        );
      const weight = make(1).rows(0, 1).reshape([17]);
      const rstd = Tensor.from([0.9, 1.1], { shape: [2], dtype, device });
      const [apart, together] = [Tensor.empty(make(0)), make(0)];
      const operands = { input: make(0.5), rstd, weight, addend: make(2) };
      rmsNormBackward({ ...operands, inputGradient: apart, outputGradient: together });
      rmsNormBackward({ ...operands, inputGradient: together, outputGradient: together });
      expect(together.toArray()).toEqual(apart.toArray());
      biasSquaredReluBackward({ input: make(0.5), inputGradient: apart, outputGradient: together });
      biasSquaredReluBackward({ input: make(0.5), inputGradient: together, outputGradient: together });
      expect(together.toArray()).toEqual(apart.toArray());
    });
  });
});

it('views without rows are normalized, rotated and copied to nothing', () => {
  tidy(() => {
    const whole = Tensor.zeros({ shape: [64], dtype: 'float32' });
    // strides that do not merge: an empty dimension is neither the first nor the last
    const view = whole.strided({ shape: [2, 0, 3, 4], strides: [30, 15, 5, 1] });
    const weight = Tensor.zeros({ shape: [4], dtype: 'float32' });
    const rstd = Tensor.zeros({ shape: [0], dtype: 'float32' });
    rmsNormForward({ output: view, rstd, input: view, weight, epsilon: 1 });
    const gradients = { inputGradient: view, weightGradient: weight, outputGradient: view };
    rmsNormBackward({ ...gradients, input: view, rstd, weight });
    const positions = Tensor.zeros({ shape: [2, 0], dtype: 'int32' });
    rotaryEmbedding({ output: view, input: view, positions, table: whole.reshape([16, 4]) });
    cast({ output: view, input: view });
    expect(whole.toArray()).toEqual(new Array(64).fill(0));
  });
});

describe('errors of rotaryEmbedding', () => {
  const zeros = (shape: readonly number[], dtype: 'float32' | 'int32' = 'float32'): Tensor =>
    Tensor.zeros({ shape, dtype });
  it.each<[string, readonly number[], readonly number[], readonly number[], string]>([
    ['a table wider than a head', [2, 3, 4], [2], [5, 6], 'table has rows of 6 elements for heads of 4'],
    ['an odd table', [2, 3, 4], [2], [5, 3], 'table has rows of 3 elements for heads of 4'],
    ['positions of other rows', [2, 3, 4], [3], [5, 4], 'positions has shape [3], expected [2]'],
    ['positions of heads', [2, 3, 4, 6], [2, 3, 4], [5, 6], 'positions has 3 dimensions, expected 1 to 2'],
  ])('name %s', (_, shape, positions, table, message) => {
    tidy(() => {
      const [input, output] = [zeros(shape), zeros(shape)];
      const call = { input, output, positions: zeros(positions, 'int32'), table: zeros(table) };
      expect(() => rotaryEmbedding(call)).toThrow(
        expect.objectContaining({ code: 'MTL_SHAPE', message: expect.stringContaining(message) }),
      );
    });
  });

  it('name a view whose rows have gaps', () => {
    tidy(() => {
      const view = zeros([64]).strided({ shape: [2, 3, 4], strides: [24, 8, 2] });
      const call = { positions: zeros([2], 'int32'), table: zeros([5, 4]) };
      expect(() => rotaryEmbedding({ ...call, input: view, output: zeros([2, 3, 4]) })).toThrow(
        /the elements of a row of input are 2 elements apart, expected a last dimension with stride 1/,
      );
    });
  });
});
