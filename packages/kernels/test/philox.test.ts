import { afterAll, describe, expect, it } from 'vitest';
import {
  biasDropoutResidualForward,
  hostInformation,
  numLiveTensors,
  philoxNormal,
  setInstructionSet,
  Tensor,
  tidy,
} from '../src/index.js';
import { philox } from './support/philox.js';

// The known answers that the authors publish with Random123 (kat_vectors, philox4x32 10).
const knownAnswers = [
  {
    counter: [0, 0, 0, 0],
    key: [0, 0],
    words: [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8],
  },
  {
    counter: [0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff],
    key: [0xffffffff, 0xffffffff],
    words: [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd],
  },
  {
    counter: [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
    key: [0xa4093822, 0x299f31d0],
    words: [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
  },
] as const;

interface Site {
  readonly key: readonly [number, number];
  readonly row: number;
  readonly sample: number;
  readonly hidden: number;
}

/** Returns the columns of one row that the dropout of the native op keeps at a probability. */
function keptColumns({ key, row, sample, hidden }: Site, probability: number): boolean[] {
  return tidy(() => {
    const input = Tensor.from(Array<number>(hidden).fill(1), { shape: [1, 1, hidden], dtype: 'float32' });
    const output = Tensor.empty(input);
    const samples = Tensor.from([sample], { shape: [1, 1], dtype: 'int64' });
    // `row | 0` has the 32 bits of the counter: the largest row becomes -1
    const positions = Tensor.from([row | 0], { shape: [1, 1], dtype: 'int32' });
    biasDropoutResidualForward({ output, input, dropout: { probability, key, samples, positions } });
    return output.toArray().map((value) => value !== 0);
  });
}

/** Returns the word of an element by the mapping that native/core/philox.h documents. */
function wordOfColumn({ key, row, sample }: Site, column: number): number {
  const counter = Math.floor(column / 64) * 16 + (column % 16);
  const high = Math.floor(sample / 2 ** 32) & 0xffff;
  return philox([counter, row, sample % 2 ** 32, high], key)[Math.floor(column / 16) % 4]!;
}

afterAll(() => {
  setInstructionSet(hostInformation().detectedInstructionSet);
  expect(numLiveTensors()).toBe(0);
});

describe('Philox 4x32-10', () => {
  it.each(knownAnswers)('gives the published words for counter $counter', ({ counter, key, words }) => {
    expect(philox(counter, key)).toEqual(words);
  });
});

describe.each(hostInformation().usableInstructionSets)('dropout of the %s kernels', (level) => {
  // An element is dropped when its 32 bits are below probability * 2^32: one step of 2^-32 on either side of
  // the word determines all its bits.
  it('takes the published words of the zero counter', () => {
    setInstructionSet(level);
    const site: Site = { key: [0, 0], row: 0, sample: 0, hidden: 64 };
    knownAnswers[0].words.forEach((word, index) => {
      expect(keptColumns(site, word / 2 ** 32)[16 * index]).toBe(true);
      expect(keptColumns(site, (word + 1) / 2 ** 32)[16 * index]).toBe(false);
    });
  });

  it.each([
    { key: [0xffffffff, 0xffffffff], row: 0xffffffff, sample: 2 ** 48 - 1, hidden: 70 },
    { key: [0xa4093822, 0x299f31d0], row: 0x85a308d3, sample: 0x13198a2e + 0x7344 * 2 ** 32, hidden: 200 },
  ] as const)('takes every bit of the words at sample $sample', (site) => {
    setInstructionSet(level);
    for (let column = 0; column < site.hidden; column += 7) {
      const word = wordOfColumn(site, column);
      expect(keptColumns(site, word / 2 ** 32)[column], `column ${column}`).toBe(true);
      expect(keptColumns(site, (word + 1) / 2 ** 32)[column], `column ${column}`).toBe(false);
    }
  });
});

/** Returns for each element of [sequence, batch, hidden] whether it is kept. */
function keptElements(probability: number, key: readonly [number, number]): Uint8Array {
  const shape = [128, 4, 512];
  return tidy(() => {
    const input = Tensor.from(new Float32Array(128 * 4 * 512).fill(1), { shape, dtype: 'float32' });
    const samples = Tensor.from([0, 1, 2, 3], { shape: [4], dtype: 'int64' });
    const output = Tensor.empty(input);
    biasDropoutResidualForward({ output, input, dropout: { probability, key, samples } });
    const values = output.read<'float32'>();
    // kept values are scaled so that the expectation stays the same: exactly 1 / (1 - p) in float32
    expect(new Set(values)).toEqual(new Set([0, Math.fround(1 / (1 - probability))]));
    return Uint8Array.from(values, (value) => Number(value !== 0));
  });
}

const mean = (values: ArrayLike<number>): number =>
  (Array.prototype.reduce.call(
    values,
    (total, value) => (total as number) + (value as number),
    0,
  ) as number) / values.length;

// Keys are fixed, so these tests do not flake. 1 fair generator in 1.7 million exceeds 5 standard deviations.
describe('statistics', () => {
  it.each([0.1, 0.5, 0.9])('dropout keeps 1 - %d of the elements, neighbours independent', (probability) => {
    const kept = keptElements(probability, [17, 18]);
    const deviation = Math.sqrt((probability * (1 - probability)) / kept.length);
    expect(Math.abs(mean(kept) - (1 - probability))).toBeLessThan(5 * deviation);
    // along columns, samples and positions the correlation of two elements has deviation 1 / sqrt(n)
    for (const distance of [1, 16, 64, 512, 2048]) {
      let product = 0;
      const count = kept.length - distance;
      for (let index = 0; index < count; index++)
        product += (kept[index]! - (1 - probability)) * (kept[index + distance]! - (1 - probability));
      const correlation = product / count / (probability * (1 - probability));
      expect(Math.abs(correlation), `distance ${distance}`).toBeLessThan(5 / Math.sqrt(count));
    }
  });

  it('masks of two keys agree as often as independent ones', () => {
    const [left, right] = [keptElements(0.5, [1, 0]), keptElements(0.5, [2, 0])];
    const agreement = mean(left.map((value, index) => Number(value === right[index])));
    expect(Math.abs(agreement - 0.5)).toBeLessThan((5 * 0.5) / Math.sqrt(left.length));
  });

  it('normals have the moments and the distribution of N(0, 1)', () => {
    const [rows, columns] = [512, 512];
    const values = tidy(() => {
      const output = Tensor.empty({ shape: [rows, columns], dtype: 'float32' });
      philoxNormal({ output, standardDeviation: 1, key: [3, 4], globalColumns: columns });
      return output.read<'float32'>();
    });
    const n = values.length;
    const moment = (power: number): number => mean(values.map((value) => value ** power));
    // deviations of the sample moments of N(0, 1): 1, 2, 15 and 96 over n under the root
    expect(Math.abs(moment(1))).toBeLessThan(5 * Math.sqrt(1 / n));
    expect(Math.abs(moment(2) - 1)).toBeLessThan(5 * Math.sqrt(2 / n));
    expect(Math.abs(moment(3))).toBeLessThan(5 * Math.sqrt(15 / n));
    expect(Math.abs(moment(4) - 3)).toBeLessThan(5 * Math.sqrt(96 / n));
    // Kolmogorov-Smirnov: sqrt(n) D above 1.95 has probability 0.001 under the null hypothesis
    const sorted = values.slice().sort();
    let distance = 0;
    sorted.forEach((value, index) => {
      const probability = normalDistribution(value);
      distance = Math.max(distance, (index + 1) / n - probability, probability - index / n);
    });
    expect(Math.sqrt(n) * distance).toBeLessThan(1.95);
  });

  it('normals are Box and Muller of the Philox words, at global coordinates beyond 32 bits', () => {
    const [globalColumns, rowOffset, columnOffset] = [2 ** 31, 40, 12345];
    const key = [0xdeadbeef, 7] as const;
    const values = tidy(() => {
      const output = Tensor.empty({ shape: [2, 9], dtype: 'float32' });
      philoxNormal({ output, mean: 2, standardDeviation: 3, key, globalColumns, rowOffset, columnOffset });
      return output.toArray();
    });
    values.forEach((value, index) => {
      const element = (Math.floor(index / 9) + rowOffset) * globalColumns + (index % 9) + columnOffset;
      const block = Math.floor(element / 4);
      const words = philox([block % 2 ** 32, Math.floor(block / 2 ** 32), 0, 0], key);
      const [first, second] = element % 4 < 2 ? [words[0]!, words[1]!] : [words[2]!, words[3]!];
      const radius = Math.sqrt(-2 * Math.log((first + 1) / 2 ** 32));
      const angle = (2 * Math.PI * second) / 2 ** 32;
      const expected = 2 + 3 * radius * (element % 2 === 0 ? Math.cos(angle) : Math.sin(angle));
      // both compute in double; the tensor is rounded to float32
      expect(Math.abs(value - expected)).toBeLessThanOrEqual(2 ** -24 * Math.abs(expected) + 1e-12);
    });
  });
});

/** Computes P(N(0, 1) <= x) by Simpson's rule on [0, |x|]: accurate to 1e-9; the test needs 1e-4. */
function normalDistribution(x: number): number {
  const steps = 64;
  const width = Math.abs(x) / steps;
  const density = (t: number): number => Math.exp(-t * t * 0.5) / Math.sqrt(2 * Math.PI);
  let total = density(0) + density(Math.abs(x));
  for (let step = 1; step < steps; step++) total += (step % 2 === 1 ? 4 : 2) * density(step * width);
  return 0.5 + Math.sign(x) * ((total * width) / 3);
}
