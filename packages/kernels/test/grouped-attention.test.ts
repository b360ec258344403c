import { afterAll, describe, expect, it } from 'vitest';
import {
  attentionCachedForward,
  type Device,
  hostInformation,
  numLiveTensors,
  setNumThreads,
  splitProjection,
  Tensor,
  tidy,
} from '../src/index.js';
import { projectedBackward, projectedForward } from './support/projected-attention.js';

// S sequence, B micro-batch, A query heads in G groups of R, D head size
const sequence = 70;
const batch = 2;
const groups = 2;
const members = 3;
const heads = groups * members;
const size = 20;
const scale = 0.3;

afterAll(() => {
  setNumThreads(hostInformation().numThreads);
  expect(numLiveTensors()).toBe(0);
});

/** Returns reproducible values in [-1.5, 1.5). */
function values(count: number, seed: number): Float32Array {
  let state = seed;
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state / 2 ** 32 - 0.5) * 3;
  });
}

/** A function that returns a row of D elements of a tensor [S, B, ...]. */
type Rows = (position: number, sample: number, row: number) => Float32Array;

const projected = values(sequence * batch * groups * (members + 2) * size, 1);
const outputGradient = values(sequence * batch * heads * size, 2);
const rowOf = (source: Float32Array, index: number): Float32Array =>
  source.subarray(index * size, (index + 1) * size);

/** Returns a function that reads one row of a head's group in the packed projection [S, B, G, R + 2, D]. */
const part =
  (number: (group: number) => number): Rows =>
  (position, sample, head) => {
    const group = Math.floor(head / members);
    const row = number(head % members);
    return rowOf(projected, ((position * batch + sample) * groups + group) * (members + 2) + row);
  };
const query = part((member) => member);
const key = part(() => members);
const value = part(() => members + 1);
const gradientOf: Rows = (position, sample, head) =>
  rowOf(outputGradient, (position * batch + sample) * heads + head);

function dot(left: ArrayLike<number>, right: ArrayLike<number>): number {
  let sum = 0;
  for (let d = 0; d < left.length; d++) sum += left[d]! * right[d]!;
  return sum;
}

/**
 * Computes the formulas of causal grouped-query attention in double precision: outputs and gradients by head.
 */
function expectedResults() {
  const output = new Float64Array(sequence * batch * heads * size);
  const gradient = new Float64Array(projected.length);
  const add = (at: number, factor: number, row: Float32Array): void => {
    for (let d = 0; d < size; d++) gradient[at * size + d]! += factor * row[d]!;
  };
  for (let b = 0; b < batch; b++) {
    for (let a = 0; a < heads; a++) {
      const group = Math.floor(a / members);
      const rowIn = (s: number, row: number): number =>
        ((s * batch + b) * groups + group) * (members + 2) + row;
      for (let s = 0; s < sequence; s++) {
        const q = query(s, b, a);
        const weights = Array.from({ length: s + 1 }, (_, k) => Math.exp(scale * dot(q, key(k, b, a))));
        const total = weights.reduce((sum, weight) => sum + weight, 0);
        const probabilities = weights.map((weight) => weight / total);
        const dO = gradientOf(s, b, a);
        const dP = probabilities.map((_, k) => dot(dO, value(k, b, a)));
        const mean = dot(probabilities, dP);
        probabilities.forEach((probability, k) => {
          const dS = scale * probability * (dP[k]! - mean);
          for (let d = 0; d < size; d++) {
            output[((s * batch + b) * heads + a) * size + d]! += probability * value(k, b, a)[d]!;
          }
          add(rowIn(s, a % members), dS, key(k, b, a));
          add(rowIn(k, members), dS, q);
          add(rowIn(k, members + 1), probability, dO);
        });
      }
    }
  }
  return { output, gradient };
}

function results(device: Device) {
  return tidy(() => {
    const dtype = 'float32';
    const qkv = Tensor.from(projected, {
      shape: [sequence, batch, groups, members + 2, size],
      dtype,
      device,
    });
    const output = Tensor.empty({ shape: [sequence, batch, heads, size], dtype, device });
    const logSumExp = Tensor.empty({ shape: [batch, heads, sequence], dtype, device });
    const qkvGradient = Tensor.empty({ shape: qkv.shape, dtype, device });
    const call = { output, logSumExp, qkv, visibility: { causal: true }, scale };
    projectedForward(call);
    projectedBackward({
      ...call,
      qkvGradient,
      outputGradient: Tensor.from(outputGradient, { shape: output.shape, dtype, device }),
    });
    return { output: output.toArray(), gradient: qkvGradient.toArray() };
  });
}

function largestDifference(left: ArrayLike<number>, right: ArrayLike<number>): number {
  let largest = 0;
  for (let index = 0; index < left.length; index++) {
    largest = Math.max(largest, Math.abs(left[index]! - right[index]!));
  }
  return largest;
}

/** Returns every head with a copy of its group's key and value: [S, B, A, 3, D]. */
function repeated(): number[] {
  const rows: Float32Array[] = [];
  for (let s = 0; s < sequence; s++) {
    for (let b = 0; b < batch; b++) {
      for (let a = 0; a < heads; a++) rows.push(query(s, b, a), key(s, b, a), value(s, b, a));
    }
  }
  return rows.flatMap((row) => [...row]);
}

describe('grouped-query attention', () => {
  const expected = expectedResults();

  it.each(['cpu', 'reference'] as const)('has the results of the formulas on device %s', (device) => {
    for (const threads of [1, 4]) {
      setNumThreads(threads);
      const { output, gradient } = results(device);
      // float32: outputs are means of values of size 1; key and value gradients sums of up to 70 * 3 terms
      expect(largestDifference(output, expected.output)).toBeLessThan(4e-6);
      expect(largestDifference(gradient, expected.gradient)).toBeLessThan(4e-5);
    }
  });

  it('gives the bits of attention with a copy of its keys and values for every head', () => {
    const dtype = 'float32';
    const shared = results('cpu').output;
    const own = tidy(() => {
      const qkv = Tensor.from(repeated(), { shape: [sequence, batch, heads, 3, size], dtype });
      const output = Tensor.empty({ shape: [sequence, batch, heads, size], dtype });
      const logSumExp = Tensor.empty({ shape: [batch, heads, sequence], dtype });
      projectedForward({ output, logSumExp, qkv, visibility: { causal: true }, scale });
      return output.toArray();
    });
    expect(shared).toEqual(own);
  });

  it('gives the same bits for packed samples and for a cache', () => {
    const dtype = 'float32';
    const shape = [sequence * batch, groups, members + 2, size];
    tidy(() => {
      // one sample of all rows, bidirectional
      const qkv = Tensor.from(projected, { shape, dtype });
      const alone = qkv.view({ shape: [sequence * batch, 1, groups, members + 2, size] });
      const rows = sequence * batch;
      const packed = Tensor.empty({ shape: [rows, heads, size], dtype });
      const padded = Tensor.empty({ shape: [rows, 1, heads, size], dtype });
      const starts = Tensor.from([0, rows], { shape: [2], dtype: 'int32' });
      projectedForward({
        output: packed,
        logSumExp: Tensor.empty({ shape: [heads, rows], dtype }),
        qkv,
        visibility: { packed: { starts, longest: rows, numScores: rows ** 2 } },
      });
      const logSumExp = Tensor.empty({ shape: [1, heads, rows], dtype });
      projectedForward({ output: padded, logSumExp, qkv: alone });
      expect(packed.toArray()).toEqual(padded.toArray());

      const cached = Tensor.empty({ shape: [rows, 1, heads, size], dtype });
      const cache = { shape: [1, groups, rows, size], dtype } as const;
      projectedForward({ output: padded, logSumExp, qkv: alone, visibility: { causal: true } });
      attentionCachedForward({
        keyCache: Tensor.zeros(cache),
        valueCache: Tensor.zeros(cache),
        output: cached,
        ...splitProjection(alone),
        position: 0,
      });
      expect(cached.toArray()).toEqual(padded.toArray());
    });
  });

  it.each([
    [[4, 1, 2, 2, 8], [4, 1, 2, 8], /a packed projection has shape .4, 1, 2, 2, 8./],
    [[4, 1, 2, 5, 8], [4, 1, 2, 8], /output has shape .4, 1, 2, 8., expected .4, 1, 6, 8./],
  ] as const)('rejects qkv %j with output %j', (qkv, output, message) => {
    const dtype = 'float32';
    tidy(() => {
      const call = {
        output: Tensor.zeros({ shape: output, dtype }),
        logSumExp: Tensor.zeros({ shape: [1, qkv[3] === 5 ? 6 : 2, 4], dtype }),
        qkv: Tensor.zeros({ shape: qkv, dtype }),
      };
      expect(() => projectedForward(call)).toThrow(message);
    });
  });
});
