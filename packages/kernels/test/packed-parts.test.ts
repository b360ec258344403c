import { describe, expect, it } from 'vitest';
import {
  attentionForward,
  type Device,
  type DType,
  mergeAttention,
  type PackedSamples,
  Tensor,
  tidy,
} from '../src/index.js';
import { type AttentionSizes, type AttentionValues, attentionValues } from './support/attention-formula.js';
import { differentiateAttention } from './support/differentiate-attention.js';

// Every document of a pack is divided into 2 cp chunks; rank r has chunks r and 2 cp - 1 - r. A call computes
// one chunk of every document with all keys.

const numRanks = 2;
const lengths = [8, 144, 4, 60];
const starts = lengths.map((_, index) => sum(lengths.slice(0, index)));
const rows = sum(lengths);
const sizes: AttentionSizes = { queries: rows, keys: rows, batch: 1, heads: 4, groups: 2, size: 12 };

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

function int32(values: readonly number[], device: Device): Tensor {
  return Tensor.from(values, { shape: [values.length], dtype: 'int32', device });
}

interface Run {
  readonly device: Device;
  readonly dtype: DType;
  readonly probability: number;
}

/** Returns the rows of the pack that a chunk of every document has. */
function rowsOfChunk(chunk: number): number[] {
  return lengths.flatMap((length, document) => {
    const size = length / (2 * numRanks);
    return Array.from({ length: size }, (_, row) => starts[document]! + chunk * size + row);
  });
}

/** Runs forward and backward of the queries in some rows; adds up gradients of keys and values. */
function attend(
  { device, dtype, probability }: Run,
  values: AttentionValues,
  call: {
    rowsOfQueries: readonly number[];
    packed: PackedSamples;
    keyGradient: Tensor;
    valueGradient: Tensor;
  },
): { output: number[]; logSumExp: number[]; query: number[] } {
  return tidy(() => {
    const { rowsOfQueries, packed, keyGradient, valueGradient } = call;
    const { heads, groups, size } = sizes;
    const gather = (source: Float64Array): number[] =>
      rowsOfQueries.flatMap((row) => [...source.subarray(row * heads * size, (row + 1) * heads * size)]);
    const make = (source: readonly number[], shape: readonly number[]) =>
      Tensor.from(source, { shape, dtype, device });
    const ofQueries = [rowsOfQueries.length, heads, size];
    const output = Tensor.empty({ shape: ofQueries, dtype, device });
    const logSumExp = Tensor.empty({ shape: [heads, rowsOfQueries.length], dtype, device });
    const queryGradient = Tensor.zeros({ shape: ofQueries, dtype, device });
    const samples = Tensor.from([4, 5, 6, 7], { shape: [4], dtype: 'int64', device });
    const operands = {
      output,
      logSumExp,
      query: make(gather(values.query), ofQueries),
      key: make([...values.key], [rows, groups, size]),
      value: make([...values.value], [rows, groups, size]),
      visibility: { causal: true, packed },
      dropout: { probability, keyLow: 1, keyHigh: 2, samples },
    };
    attentionForward(operands);
    const outputGradient = make(gather(values.outputGradient), ofQueries);
    differentiateAttention({
      ...operands,
      outputGradient,
      queryGradient,
      keyGradient,
      valueGradient,
      accumulate: true,
    });
    return { output: output.toArray(), logSumExp: logSumExp.toArray(), query: queryGradient.toArray() };
  });
}

function difference(actual: readonly number[], expected: readonly number[]): number {
  return actual.reduce((most, value, index) => Math.max(most, Math.abs(value - expected[index]!)), 0); // NaN stays
}

describe.each<[Device, DType, number]>([
  // bounds for sums of gradients of size 1, in another order
  ['reference', 'float64', 1e-12],
  ['cpu', 'float32', 1e-5],
])('chunks of packed documents on %s in %s', (device, dtype, tolerance) => {
  it.each([0, 0.3])('are together the whole documents, with dropout %d', (probability) => {
    tidy(() => {
      const values = attentionValues(sizes);
      const run = { device, dtype, probability };
      const shape = [rows, sizes.groups, sizes.size];
      const zeros = () => ({
        keyGradient: Tensor.zeros({ shape, dtype, device }),
        valueGradient: Tensor.zeros({ shape, dtype, device }),
      });
      const packed = { starts: int32([...starts, rows], device), longest: Math.max(...lengths) };
      const [ofWhole, ofChunks] = [zeros(), zeros()];
      const allRows = Array.from({ length: rows }, (_, row) => row);
      const numScores = sum(lengths.map((length) => length ** 2));
      const whole = attend(run, values, {
        rowsOfQueries: allRows,
        packed: { ...packed, numScores },
        ...ofWhole,
      });
      for (let chunk = 0; chunk < 2 * numRanks; chunk++) {
        const sizesOfChunk = lengths.map((length) => length / (2 * numRanks));
        const startsOfChunk = [0, ...sizesOfChunk].map((_, index) => sum(sizesOfChunk.slice(0, index)));
        const queries = {
          starts: int32(startsOfChunk, device),
          longest: Math.max(...sizesOfChunk),
          first: int32(
            sizesOfChunk.map((size) => chunk * size),
            device,
          ),
        };
        const rowsOfQueries = rowsOfChunk(chunk);
        const part = attend(run, values, {
          rowsOfQueries,
          packed: { ...packed, numScores: numScores / (2 * numRanks), queries },
          ...ofChunks,
        });
        const width = sizes.heads * sizes.size;
        const expectedRows = (all: readonly number[]) =>
          rowsOfQueries.flatMap((row) => all.slice(row * width, (row + 1) * width));
        expect(difference(part.output, expectedRows(whole.output))).toBeLessThan(tolerance);
        expect(difference(part.query, expectedRows(whole.query))).toBeLessThan(tolerance);
        const statistics = Array.from({ length: sizes.heads }, (_, head) =>
          rowsOfQueries.map((row) => whole.logSumExp[head * rows + row]!),
        ).flat();
        expect(difference(part.logSumExp, statistics)).toBeLessThan(tolerance);
      }
      for (const name of ['keyGradient', 'valueGradient'] as const) {
        expect(difference(ofChunks[name].toArray(), ofWhole[name].toArray()), name).toBeLessThan(tolerance);
      }
    });
  });
});

describe.each<[Device, DType, number]>([
  // bounds for sums of gradients of size 1, in another order
  ['reference', 'float64', 1e-12],
  ['cpu', 'float32', 1e-5],
])('documents of one sequence on %s in %s', (device, dtype, tolerance) => {
  const windowSize = 50;
  const { heads, groups, size } = sizes;
  const startOf = (position: number): number => starts.findLast((start) => start <= position)!;

  /** Returns the results of one sequence of all documents, with the rows of its batch of one. */
  function sequenceOf(values: AttentionValues): Record<'output' | 'query' | 'key' | 'value', number[]> {
    const make = (source: Float64Array, of: number) =>
      Tensor.from([...source], { shape: [rows, 1, of, size], dtype, device });
    const zeros = (of: number) => Tensor.zeros({ shape: [rows, 1, of, size], dtype, device });
    const keyStart = Array.from({ length: rows }, (_, position) => startOf(position));
    const operands = {
      output: zeros(heads),
      logSumExp: Tensor.empty({ shape: [1, heads, rows], dtype, device }),
      query: make(values.query, heads),
      key: make(values.key, groups),
      value: make(values.value, groups),
      visibility: {
        causal: true,
        windowSize,
        keyStart: Tensor.from(keyStart, { shape: [1, rows], dtype: 'int32', device }),
      },
      dropout: {
        probability: 0.3,
        keyLow: 1,
        keyHigh: 2,
        samples: Tensor.from([77], { shape: [1], dtype: 'int64', device }),
      },
    };
    attentionForward(operands);
    const gradients = {
      queryGradient: zeros(heads),
      keyGradient: zeros(groups),
      valueGradient: zeros(groups),
    };
    differentiateAttention({ ...operands, ...gradients, outputGradient: make(values.outputGradient, heads) });
    return {
      output: operands.output.toArray(),
      query: gradients.queryGradient.toArray(),
      key: gradients.keyGradient.toArray(),
      value: gradients.valueGradient.toArray(),
    };
  }

  /** Computes packed documents in halves: every half of their queries with every half of their keys. */
  function halvesOf(values: AttentionValues): ReturnType<typeof sequenceOf> {
    const samples = Tensor.from([77, 77, 77, 77], { shape: [4], dtype: 'int64', device });
    const sums = { output: [...values.query].fill(0), query: [...values.query].fill(0) };
    const ofKeys = { key: [...values.key].fill(0), value: [...values.value].fill(0) };
    const halves = [0, 1].map((half) => {
      const lengthsOfHalf = lengths.map((length) => length / 2);
      const first = lengths.map((_, document) => starts[document]! + half * lengthsOfHalf[document]!);
      const positions = first.flatMap((from, document) =>
        Array.from({ length: lengthsOfHalf[document]! }, (_, at) => from + at),
      );
      const startsOfHalf = [0, ...lengthsOfHalf].map((_, document) => sum(lengthsOfHalf.slice(0, document)));
      return { lengths: lengthsOfHalf, first, positions, starts: startsOfHalf };
    });
    const rowsOf = (source: Float64Array, positions: readonly number[], of: number) =>
      Tensor.from(
        positions.flatMap((at) => [...source.subarray(at * of * size, (at + 1) * of * size)]),
        { shape: [positions.length, of, size], dtype, device },
      );
    const addTo = (to: number[], tensor: Tensor, positions: readonly number[], of: number): void => {
      const from = tensor.toArray();
      positions.forEach((at, row) => {
        for (let d = 0; d < of * size; d++) to[at * of * size + d]! += from[row * of * size + d]!;
      });
    };
    for (const queries of halves) {
      const parts = halves.map((keys) => {
        const numScores = sum(queries.lengths.map((length, document) => length * keys.lengths[document]!));
        const shape = [queries.positions.length, heads, size];
        return {
          keys,
          operands: {
            output: Tensor.zeros({ shape, dtype, device }),
            logSumExp: Tensor.empty({ shape: [heads, shape[0]!], dtype, device }),
            query: rowsOf(values.query, queries.positions, heads),
            key: rowsOf(values.key, keys.positions, groups),
            value: rowsOf(values.value, keys.positions, groups),
            visibility: {
              causal: true,
              windowSize,
              packed: {
                starts: int32(keys.starts, device),
                longest: Math.max(...keys.lengths),
                numScores,
                first: int32(keys.first, device),
                queries: {
                  starts: int32(queries.starts, device),
                  longest: Math.max(...queries.lengths),
                  first: int32(queries.first, device),
                },
              },
            },
            dropout: { probability: 0.3, keyLow: 1, keyHigh: 2, samples },
          },
        };
      });
      for (const { operands } of parts) attentionForward(operands);
      const { output, logSumExp } = parts[0]!.operands;
      const { output: partOutput, logSumExp: partLogSumExp } = parts[1]!.operands;
      mergeAttention({ output, logSumExp, partOutput, partLogSumExp });
      addTo(sums.output, output, queries.positions, heads);
      for (const { keys, operands } of parts) {
        const zeros = (like: Tensor) => Tensor.zeros({ shape: like.shape, dtype, device });
        const queryGradient = zeros(operands.query);
        const [keyGradient, valueGradient] = [zeros(operands.key), zeros(operands.value)];
        const outputGradient = rowsOf(values.outputGradient, queries.positions, heads);
        differentiateAttention({
          ...operands,
          output,
          logSumExp,
          outputGradient,
          queryGradient,
          keyGradient,
          valueGradient,
        });
        addTo(sums.query, queryGradient, queries.positions, heads);
        addTo(ofKeys.key, keyGradient, keys.positions, groups);
        addTo(ofKeys.value, valueGradient, keys.positions, groups);
      }
    }
    return { ...sums, ...ofKeys };
  }

  it('are what the first keys of its queries make of it, with windows and dropout', () => {
    tidy(() => {
      const values = attentionValues(sizes);
      const [expected, actual] = [sequenceOf(values), halvesOf(values)];
      for (const name of ['output', 'query', 'key', 'value'] as const) {
        expect(difference(actual[name], expected[name]), name).toBeLessThan(tolerance);
      }
    });
  });
});

describe('parts of packed samples', () => {
  const attempt = (packed: Omit<PackedSamples, 'starts'>) =>
    tidy(() => {
      const zeros = (shape: readonly number[]) => Tensor.zeros({ shape, dtype: 'float32' });
      const [query, key, value] = [zeros([3, 2, 8]), zeros([7, 2, 8]), zeros([7, 2, 8])];
      attentionForward({
        query,
        key,
        value,
        visibility: { packed: { starts: int32([0, 4, 7], 'cpu'), ...packed } },
      });
      return [];
    });

  it.each<[string, () => Omit<PackedSamples, 'starts'>, RegExp]>([
    ['queries without rows of their own', () => ({ longest: 4, numScores: 25 }), /key.*expected \[3, 2, 8\]/],
    [
      'queries beyond the rows',
      () => ({ longest: 4, numScores: 10, queries: { starts: int32([0, 1, 4], 'cpu'), longest: 3 } }),
      /queryStarts go from 0 to 4, expected from 0 to at most the 3 rows/,
    ],
    [
      'more queries than the longest',
      () => ({ longest: 4, numScores: 10, queries: { starts: int32([0, 1, 3], 'cpu'), longest: 1 } }),
      /queryStarts: sample 1 has rows 1 to 3, expected 0 to longest = 1/,
    ],
    [
      'a wrong number of scores',
      () => ({ longest: 4, numScores: 9, queries: { starts: int32([0, 1, 3], 'cpu'), longest: 2 } }),
      /numScores is 9, expected 10/,
    ],
    [
      'a query before its sample',
      () => ({
        longest: 4,
        numScores: 10,
        queries: { starts: int32([0, 1, 3], 'cpu'), longest: 2, first: int32([2, -1], 'cpu') },
      }),
      /firstQueries\[1\] is -1, expected a position/,
    ],
    [
      'keys before their sequence',
      () => ({
        longest: 4,
        numScores: 10,
        first: int32([0, -3], 'cpu'),
        queries: { starts: int32([0, 1, 3], 'cpu'), longest: 2 },
      }),
      /firstKeys\[1\] is -3, expected a position/,
    ],
  ])('refuse %s', (_, packed, message) => {
    tidy(() => {
      expect(() => attempt(packed())).toThrow(message);
    });
  });
});
