import { inWholeRuns } from '@mtl/tooling/in-whole-runs';
import { afterAll, describe, expect, it } from 'vitest';
import {
  type AttentionOptions,
  attentionForward,
  type Device,
  type DType,
  hostInformation,
  instructionSets,
  mergeAttention,
  setInstructionSet,
  Tensor,
  tidy,
  type Visibility,
} from '../src/index.js';
import { type AttentionSizes, type AttentionValues, attentionValues } from './support/attention-formula.js';
import { differentiateAttention } from './support/differentiate-attention.js';

// Attention in chunks: a sequence is divided into 2 cp chunks, as the ranks of context parallelism hold it.
// The attention of every chunk of queries with every chunk of keys, merged and added up, equals the attention
// of the whole sequence. S sequence, B micro-batch, A heads in G groups, D head size.

afterAll(() => setInstructionSet(hostInformation().detectedInstructionSet));

interface Run {
  readonly sizes: AttentionSizes;
  readonly device: Device;
  readonly dtype: DType;
  /** [B, S]: the first position of a query's document. */
  readonly starts?: readonly number[] | undefined;
  readonly visibility: Visibility;
  readonly scale?: number;
  readonly probability?: number;
}

type Results = Record<'output' | 'logSumExp' | 'query' | 'key' | 'value', number[]>;

interface Operands {
  readonly query: Tensor;
  readonly key: Tensor;
  readonly value: Tensor;
  readonly outputGradient: Tensor;
  /** [S, B, A, D] */
  readonly output: Tensor;
  /** [B, A, S] */
  readonly logSumExp: Tensor;
  readonly queryGradient: Tensor;
  readonly keyGradient: Tensor;
  readonly valueGradient: Tensor;
}

function operandsOf({ sizes, device, dtype }: Run, values: AttentionValues): Operands {
  const { queries, keys, batch, heads, groups, size } = sizes;
  const exact = dtype === 'float64' ? 'float64' : 'float32';
  const [ofQueries, ofKeys] = [
    [queries, batch, heads, size],
    [keys, batch, groups, size],
  ];
  const make = (source: Float64Array, shape: readonly number[]) =>
    Tensor.from([...source], { shape, dtype, device });
  const zeros = (shape: readonly number[]) => Tensor.zeros({ shape, dtype: exact, device });
  return {
    query: make(values.query, ofQueries),
    key: make(values.key, ofKeys),
    value: make(values.value, ofKeys),
    outputGradient: make(values.outputGradient, ofQueries),
    output: zeros(ofQueries),
    logSumExp: zeros([batch, heads, queries]),
    queryGradient: zeros(ofQueries),
    keyGradient: zeros(ofKeys),
    valueGradient: zeros(ofKeys),
  };
}

/** Returns the options of queries [first, end). */
function optionsOf(run: Run, [first, end]: readonly [number, number]): AttentionOptions {
  const { sizes, device, starts, visibility, scale, probability } = run;
  const { batch, queries } = sizes;
  const ofQueries = starts?.filter((_, index) => index % queries >= first && index % queries < end);
  const samples = () => Tensor.from([3, 2 ** 34].slice(0, batch), { shape: [batch], dtype: 'int64', device });
  return {
    ...(scale !== undefined && { scale }),
    visibility: {
      ...visibility,
      firstQuery: first,
      keyStart: ofQueries && Tensor.from(ofQueries, { shape: [batch, end - first], dtype: 'int32', device }),
    },
    dropout:
      probability === undefined
        ? undefined
        : { probability, keyLow: 5, keyHigh: 6, samples: samples(), headOffset: 1 },
  };
}

function resultsOf(operands: Operands): Results {
  const { output, logSumExp, queryGradient, keyGradient, valueGradient } = operands;
  const results = { output, logSumExp, query: queryGradient, key: keyGradient, value: valueGradient };
  return Object.fromEntries(
    Object.entries(results).map(([name, tensor]) => [name, tensor.toArray()]),
  ) as Results;
}

function whole(run: Run, values: AttentionValues): Results {
  return tidy(() => {
    const operands = operandsOf(run, values);
    const call = { ...operands, ...optionsOf(run, [0, run.sizes.queries]) };
    attentionForward(call);
    differentiateAttention({ ...call, accumulate: true });
    return resultsOf(operands);
  });
}

/** Returns positions [first, end) of statistics [B, A, S]. */
function positionsOf(logSumExp: Tensor, [first, end]: readonly [number, number]): Tensor {
  const [batch, heads, positions] = logSumExp.shape as [number, number, number];
  return logSumExp.strided({
    offset: first,
    shape: [batch, heads, end - first],
    strides: [heads * positions, positions, 1],
  });
}

/** Computes the results one chunk of queries with one chunk of keys at a time, later keys first. */
function inChunks(run: Run, values: AttentionValues, numChunks: number): Results {
  return tidy(() => {
    const operands = operandsOf(run, values);
    const { sizes } = run;
    const chunk = sizes.queries / numChunks;
    const chunks = Array.from(
      { length: numChunks },
      (_, index) => [index * chunk, (index + 1) * chunk] as const,
    );
    const rows = (tensor: Tensor, range: readonly [number, number]) => tensor.rows(range[0], range[1]);
    operands.logSumExp.write(
      operands.logSumExp.dtype === 'float64'
        ? new Float64Array(operands.logSumExp.size).fill(-1e30)
        : new Float32Array(operands.logSumExp.size).fill(-1e30),
    );
    const pairs = chunks.flatMap((queries) => chunks.toReversed().map((keys) => [queries, keys] as const));
    const callOf = ([queries, keys]: (typeof pairs)[number], options = optionsOf(run, queries)) => ({
      ...options,
      visibility: { ...options.visibility, firstKey: keys[0] },
      query: rows(operands.query, queries),
      key: rows(operands.key, keys),
      value: rows(operands.value, keys),
    });
    for (const pair of pairs) {
      const [queries] = pair;
      const output = rows(operands.output, queries);
      const { dtype, device } = output;
      const partOutput = Tensor.empty({ shape: output.shape, dtype, device });
      const partLogSumExp = Tensor.empty({ shape: [sizes.batch, sizes.heads, chunk], dtype, device });
      attentionForward({ ...callOf(pair), output: partOutput, logSumExp: partLogSumExp });
      const logSumExp = positionsOf(operands.logSumExp, queries);
      mergeAttention({ output, logSumExp, partOutput, partLogSumExp });
    }
    const statistics = operands.logSumExp.toArray();
    for (const pair of pairs) {
      const [queries, keys] = pair;
      const ofQueries = statistics.filter((_, index) => {
        const position = index % sizes.queries;
        return position >= queries[0] && position < queries[1];
      });
      const { dtype, device } = operands.logSumExp;
      differentiateAttention({
        ...callOf(pair),
        output: rows(operands.output, queries),
        logSumExp: Tensor.from(ofQueries, { shape: [sizes.batch, sizes.heads, chunk], dtype, device }),
        outputGradient: rows(operands.outputGradient, queries),
        queryGradient: rows(operands.queryGradient, queries),
        keyGradient: rows(operands.keyGradient, keys),
        valueGradient: rows(operands.valueGradient, keys),
        accumulate: true,
      });
    }
    return resultsOf(operands);
  });
}

function expectClose(actual: Results, expected: Results, tolerance: number): void {
  for (const name of ['output', 'logSumExp', 'query', 'key', 'value'] as const) {
    const largest = actual[name].reduce((most, value, index) => {
      const right = expected[name][index]!;
      const difference = Math.abs(value - right) / Math.max(1, Math.abs(right));
      return Math.max(most, difference); // NaN stays
    }, 0);
    expect(largest, name).toBeLessThan(tolerance);
  }
}

interface Masks {
  readonly name: string;
  readonly causal?: boolean;
  /** Returns the window size in positions, for chunks of `chunk` positions. */
  readonly window?: (chunk: number) => number;
  /** Returns the positions at which documents begin, for chunks of `chunk` positions. */
  readonly documents?: (chunk: number) => readonly number[];
  readonly probability?: number;
}

const allMasks: Masks[] = [
  { name: 'causal' },
  { name: 'not causal', causal: false },
  { name: 'a window below a chunk', window: (chunk) => chunk - 5 },
  { name: 'a window of a chunk', window: (chunk) => chunk },
  { name: 'a window above two chunks', window: (chunk) => 2 * chunk + 3 },
  { name: 'documents that begin at chunks', documents: (chunk) => [0, chunk, 3 * chunk] },
  { name: 'documents that begin in chunks', documents: (chunk) => [0, 7, 2 * chunk + 9, 2 * chunk + 11] },
  {
    name: 'a window, documents and dropout',
    window: (chunk) => chunk + 4,
    documents: (chunk) => [0, chunk - 3, 2 * chunk],
    probability: 0.2,
  },
  { name: 'dropout', probability: 0.3 },
];

function runOf(masks: Masks, numChunks: number, { chunk, groups }: { chunk: number; groups: number }) {
  const { causal = true, window, documents, probability } = masks;
  const sequence = numChunks * chunk;
  const sizes = { queries: sequence, keys: sequence, batch: 2, heads: 4, groups, size: 8 };
  const starts =
    documents &&
    Array.from({ length: 2 * sequence }, (_, index) =>
      documents(chunk).findLast((start) => start <= index % sequence),
    );
  const windowSize = window?.(chunk);
  return { sizes, starts: starts as number[] | undefined, visibility: { causal, windowSize }, probability };
}

const detected = instructionSets.indexOf(hostInformation().detectedInstructionSet);
const levels = instructionSets.slice(0, detected + 1);

describe.each([2, 4])('the chunks of %i ranks are together the whole sequence', (numRanks) => {
  it.each(allMasks.map((masks) => [masks.name, masks] as const))('in float64: %s', (_, masks) => {
    for (const groups of [1, 4]) {
      const { sizes, probability, ...rest } = runOf(masks, 2 * numRanks, { chunk: 12, groups });
      const run = {
        sizes,
        ...rest,
        device: 'reference',
        dtype: 'float64',
        ...(probability && { probability }),
      } as const;
      const values = attentionValues(sizes);
      // sums of up to a hundred terms of size 1, in another order
      expectClose(inChunks(run, values, 2 * numRanks), whole(run, values), 1e-12);
    }
  });

  it.each(levels.flatMap((level) => allMasks.map((masks) => [level, masks.name, masks] as const)))(
    'in float32 on %s: %s',
    (level, _, masks) => {
      setInstructionSet(level);
      // chunks of whole tiles; 4 ranks in whole runs have 8 chunks of 512 positions
      const wholeTiles = [[64, 1]] as const;
      for (const [chunk, groups] of [
        ...(numRanks === 2 ? wholeTiles : inWholeRuns(...wholeTiles)),
        [27, 4],
      ] as const) {
        const { sizes, probability, ...rest } = runOf(masks, 2 * numRanks, { chunk, groups });
        const run = {
          sizes,
          ...rest,
          device: 'cpu',
          dtype: 'float32',
          ...(probability && { probability }),
        } as const;
        const values = attentionValues(sizes);
        // sums of up to 512 * 4 terms of size 0.1, in another order, and merged statistics
        expectClose(inChunks(run, values, 2 * numRanks), whole(run, values), 2e-5);
      }
    },
  );
});

describe.each<[Device, DType, number]>([
  ['reference', 'float64', 1e-12],
  // the last place of a score of 200 is 1.5e-5; scores and statistics may each differ by one unit.
  // Probabilities differ by that fraction, and gradients by that fraction of terms of size 14
  ['cpu', 'float32', 2e-3],
])('chunks with logits of 200 and -200 on %s', (device, dtype, tolerance) => {
  it('are together the whole sequence', () => {
    const sizes = { queries: 72, keys: 72, batch: 1, heads: 2, groups: 1, size: 1 };
    const values = attentionValues(sizes);
    const signs = (count: number) =>
      Float64Array.from({ length: count }, (_, index) => (index % 3 === 0 ? -14 : 14));
    values.query.set(signs(values.query.length));
    values.key.set(signs(values.key.length));
    for (const causal of [true, false]) {
      const run = { sizes, device, dtype, visibility: { causal }, scale: 200 / 14 ** 2 } as const;
      const expected = whole(run, values);
      expect(Math.max(...expected.logSumExp)).toBeGreaterThan(200);
      if (causal) expect(Math.min(...expected.logSumExp)).toBeCloseTo(-200, 3);
      expectClose(inChunks(run, values, 4), expected, tolerance);
    }
  });
});
