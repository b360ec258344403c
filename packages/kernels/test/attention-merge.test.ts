import { inWholeRuns } from '@mtl/tooling/in-whole-runs';
import { afterAll, describe, expect, it } from 'vitest';
import {
  type Device,
  type DType,
  hostInformation,
  mergeAttention,
  setInstructionSet,
  Tensor,
  tidy,
} from '../src/index.js';
import {
  type AttentionCase,
  listShapes,
  packed,
  packedParts,
  padded,
  type Range,
  type Samples,
} from './support/attention-case.js';
import type { AttentionResults, AttentionValues } from './support/attention-oracle.js';
import { addGradients, moveResults, moveValues } from './support/attention-rows.js';
import { attend, attentionValues, computeBackward, computeForward } from './support/attention-run.js';

// Attention in chunks: every sample is divided into 2 cp chunks, as the ranks of context parallelism hold it.
// The attention of every chunk of queries with every chunk of keys, merged and added up, equals the attention
// of the whole samples, padded or packed.

afterAll(() => setInstructionSet(hostInformation().detectedInstructionSet));

interface Run {
  readonly device: Device;
  readonly dtype: DType;
}
type Forward = Pick<AttentionResults, 'output' | 'logSumExp'>;

/** Returns one of several chunks of equal length of every range. */
const selectChunk = (ranges: readonly Range[], index: number, numChunks: number): Range[] =>
  ranges.map(([first, end]) => {
    const size = (end - first) / numChunks;
    return [first + index * size, first + (index + 1) * size];
  });

/** Merges the results of the same queries with several parts of the keys. */
function merged(one: AttentionCase, parts: readonly Forward[], { device, dtype: of }: Run): Forward {
  const shapes = listShapes(one);
  const dtype = of === 'float64' ? of : 'float32';
  return tidy(() => {
    const make = (values: Float64Array, shape: readonly number[]) =>
      Tensor.from(dtype === 'float64' ? values : new Float32Array(values), { shape, dtype, device });
    const [first, ...rest] = parts.map((part) => ({
      output: make(part.output, shapes.output),
      logSumExp: make(part.logSumExp, shapes.logSumExp),
    }));
    const { output, logSumExp } = first!;
    for (const part of rest) {
      mergeAttention({ output, logSumExp, partOutput: part.output, partLogSumExp: part.logSumExp });
    }
    return { output: Float64Array.from(output.toArray()), logSumExp: Float64Array.from(logSumExp.toArray()) };
  });
}

/** Computes the results one chunk of queries with one chunk of keys at a time, later keys first. */
function inChunks(
  whole: AttentionCase,
  values: AttentionValues,
  numChunks: number,
  run: Run,
): AttentionResults {
  const zeros = (like: Float64Array) => new Float64Array(like.length);
  const { query, key, value, outputGradient } = values;
  const results = {
    output: zeros(outputGradient),
    logSumExp: new Float64Array(outputGradient.length / listShapes(whole).output.at(-1)!).fill(-1e30),
    query: zeros(query),
    key: zeros(key),
    value: zeros(value),
  };
  const indices = Array.from({ length: numChunks }, (_, index) => index);
  for (const ofQueries of indices) {
    const parts = indices.toReversed().map((ofKeys) => {
      const [queries, keys] = [
        selectChunk(whole.queries, ofQueries, numChunks),
        selectChunk(whole.keys, ofKeys, numChunks),
      ];
      const one: AttentionCase = { ...whole, queries, keys, rest: [0, 0] };
      return { one, values: moveValues(values, { from: whole, to: one }) };
    });
    const forward = merged(
      parts[0]!.one,
      parts.map((part) => computeForward(part.one, part.values, run)),
      run,
    );
    for (const part of parts) {
      const gradients = computeBackward(part.one, part.values, { ...run, ...forward });
      addGradients(results, gradients, { from: part.one, to: whole });
    }
    const { output, logSumExp } = moveResults({ ...values, ...forward }, { from: parts[0]!.one, to: whole });
    results.output = results.output.map((number, at) => number + output[at]!);
    results.logSumExp = results.logSumExp.map((number, at) => Math.max(number, logSumExp[at]!));
  }
  return results;
}

function expectClose(
  actual: AttentionResults,
  expected: AttentionResults,
  { tolerance, where = '' }: { tolerance: number; where?: string },
): void {
  for (const name of ['output', 'logSumExp', 'query', 'key', 'value'] as const) {
    expect(actual[name].length).toBe(expected[name].length);
    const largest = actual[name].reduce((most, value, index) => {
      const right = expected[name][index]!;
      return Math.max(most, Math.abs(value - right) / Math.max(1, Math.abs(right))); // NaN stays
    }, 0);
    expect(largest, `${name} ${where}`).toBeLessThan(tolerance);
  }
}

type Masks = Pick<AttentionCase, 'causal' | 'windowSize' | 'documents' | 'dropout'>;

/** Masks by name, for chunks of `chunk` positions. */
const masks: Readonly<Record<string, (chunk: number) => Masks>> = {
  causal: () => ({}),
  'not causal': () => ({ causal: false }),
  'a window below a chunk': (chunk) => ({ windowSize: chunk - 5 }),
  'a window of a chunk': (chunk) => ({ windowSize: chunk }),
  'a window above two chunks': (chunk) => ({ windowSize: 2 * chunk + 3 }),
  dropout: () => ({ dropout: 0.3 }),
};
/** Documents of a padded sequence; packed samples are documents of any length. */
const documents: typeof masks = {
  'documents that begin at chunks': (chunk) => ({ documents: [chunk, 2 * chunk, 99 * chunk] }),
  'documents that begin in chunks': (chunk) => ({ documents: [7, 2 * chunk + 2, 2, 99 * chunk] }),
  'a window, documents and dropout': (chunk) => ({
    windowSize: chunk + 4,
    documents: [chunk - 3, chunk + 3, 99 * chunk],
    dropout: 0.2,
  }),
};
type Layout = (chunk: number, numChunks: number) => Samples;
const sequences: Layout = (chunk, numChunks) => padded(chunk * numChunks, 2);
const packs: Layout = (chunk, numChunks) =>
  packed(
    [2, chunk, 0, 1].map((length) => length * numChunks),
    3,
  );
const windowAndDropout = (chunk: number): Masks => ({ windowSize: chunk + 4, dropout: 0.2 });
const variants = [
  ...Object.entries({ ...masks, ...documents }).map(
    ([name, of]) => [`padded: ${name}`, sequences, of] as const,
  ),
  ...Object.entries({ ...masks, 'a window and dropout': windowAndDropout }).map(
    ([name, of]) => [`packed: ${name}`, packs, of] as const,
  ),
];

const levels = hostInformation().usableInstructionSets;
const sizes = { name: '', heads: 4, headSize: 8, valueSize: 5, isExact: true };

describe.each([2, 4])('the chunks of %i ranks are together the whole samples', (numRanks) => {
  const numChunks = 2 * numRanks;
  const makeCase = ([, layout, of]: (typeof variants)[number], chunk: number, headsPerGroup: number) => {
    const one = { ...sizes, ...layout(chunk, numChunks), headsPerGroup, causal: true, ...of(chunk) };
    return [one, attentionValues(one)] as const;
  };

  it.each(variants)('in float64, %s', (...variant) => {
    const run = { device: 'reference', dtype: 'float64' } as const;
    for (const headsPerGroup of [1, 4]) {
      const [one, values] = makeCase(variant, 12, headsPerGroup);
      // sums of up to a hundred terms of size 1, in another order
      expectClose(inChunks(one, values, numChunks, run), attend(one, values, run).results, {
        tolerance: 1e-12,
      });
    }
  });

  it.each(variants)(`in float32 on ${levels.join(', ')}, %s`, (...variant) => {
    const run = { device: 'cpu', dtype: 'float32' } as const;
    // chunks of whole tiles; 4 ranks in whole runs have 8 chunks of 512 positions
    const wholeTiles = [[64, 4]] as const;
    for (const [chunk, headsPerGroup] of [
      ...(numRanks === 2 ? wholeTiles : inWholeRuns(...wholeTiles)),
      [27, 1],
    ] as const) {
      const [one, values] = makeCase(variant, chunk, headsPerGroup);
      for (const level of levels) {
        setInstructionSet(level);
        // sums of up to 512 * 4 terms of size 0.1, in another order, and merged statistics
        const expected = attend(one, values, run).results;
        expectClose(inChunks(one, values, numChunks, run), expected, { tolerance: 2e-5, where: level });
      }
    }
  });
});

describe.each<[Device, DType, { logits: number; sums: number }]>([
  ['reference', 'float64', { logits: 1e-12, sums: 1e-12 }],
  // the last place of a score of 200 is 1.5e-5; scores and statistics may each differ by one unit.
  // Probabilities differ by that fraction, and gradients by that fraction of terms of size 14. Sums of
  // gradients of size 1 in another order
  ['cpu', 'float32', { logits: 2e-3, sums: 1e-5 }],
])('on %s', (device, dtype, tolerances) => {
  const run = { device, dtype };

  it.each([
    ['padded', padded(72)],
    ['packed', packed([72, 8], 1)],
  ] as const)('chunks with logits of 200 and -200 are together the whole samples: %s', (_, samples) => {
    for (const causal of [true, false]) {
      const scale = 200 / 14 ** 2;
      const one = { ...sizes, ...samples, heads: 2, headsPerGroup: 2, headSize: 1, causal, scale };
      const values = attentionValues(one);
      for (const numbers of [values.query, values.key]) {
        numbers.forEach((_, index) => {
          numbers[index] = index % 3 === 0 ? -14 : 14;
        });
      }
      const expected = attend(one, values, run).results;
      const statistics = expected.logSumExp.filter((number) => number > -1e29);
      expect(Math.max(...statistics)).toBeGreaterThan(200);
      if (causal) expect(Math.min(...statistics)).toBeCloseTo(-200, 3);
      expectClose(inChunks(one, values, 4, run), expected, { tolerance: tolerances.logits });
    }
  });

  it('chunks of packed documents of one sequence are together the sequence, with windows and dropout', () => {
    const lengths = [8, 144, 4, 60];
    const masks = { ...sizes, headsPerGroup: 2, causal: true, windowSize: 50, dropout: 0.3 };
    const sequence: AttentionCase = { ...masks, ...padded(216), documents: lengths, sampleNumbers: [77] };
    const rows = lengths.map((length, index) => {
      const first = lengths.slice(0, index).reduce((sum, before) => sum + before, 0);
      return [first, first + length, first, first + length] as const;
    });
    const pack: AttentionCase = { ...masks, ...packedParts(rows), sampleNumbers: [77, 77, 77, 77] };
    const values = attentionValues(sequence);
    const ofPack = moveValues(values, { from: sequence, to: pack });
    const expected = moveResults(attend(sequence, values, run).results, { from: sequence, to: pack });
    expectClose(attend(pack, ofPack, run).results, expected, { tolerance: tolerances.sums });
    expectClose(inChunks(pack, ofPack, 4, run), expected, { tolerance: tolerances.sums });
  });
});
