import { numLiveTensors } from '@mtl/kernels';
import { beforeAll, describe, expect, it } from 'vitest';
import { layerNormOfHeads, llamaVariants, normOfAllHeads, otherVariants } from '../support/small-llama.js';
import { distance, runSharded, runWhole } from './compare-with-one-process.js';
import type { ShardedStepOptions, ShardedStepResult } from './ranks/sharded-gpt.js';
import { batchSize, type StepOptions, sequenceLength, smallGpt } from './small-gpt.js';

// Rounding: measured 2e-8 and 5e-7 here, in sums of another order; 2e-7 and 2e-6 over longer runs. A gradient
// that is summed once too little is off by its own size.
const float32 = { loss: 2e-6, gradient: 1e-5 };
// bfloat16 has 8 bits (4e-3), and every partial sum is rounded to them before it is added to the others;
// measured 4e-4 and 1.2e-2, no further than one process in bfloat16 is from float32: 7e-4 and 1.2e-2
const bfloat16 = { loss: 2e-3, gradient: 2e-2 };

const cases: readonly (readonly [string, StepOptions])[] = [
  ['as it is', {}],
  ['halves of backward apart', { split: true }],
  ['recomputing every layer', { recomputation: { granularity: 'full', method: 'uniform', numLayers: 1 } }],
  [
    'recomputing groups of two, halves apart',
    { recomputation: { granularity: 'full', method: 'uniform', numLayers: 2 }, split: true },
  ],
  ['recomputing the first layer', { recomputation: { granularity: 'full', method: 'block', numLayers: 1 } }],
  ['with an output layer of its own', { model: { tieEmbeddings: false } }],
  ['with ranks whose vocabulary is all padding', { model: { makeVocabularySizeDivisibleBy: 256 } }],
  ['with four layers', { model: { numLayers: 4 } }],
  ['with blocks of Llama', { model: llamaVariants }],
  ['with other blocks of Llama', { model: otherVariants }],
  ['with layer norm of queries and keys', { model: layerNormOfHeads }],
  ['with norms of all heads together', { model: normOfAllHeads }],
  ['with norms of all heads together, halves apart', { model: normOfAllHeads, split: true }],
  ['in bfloat16', { dtype: 'bfloat16' }],
];

type Events = readonly (readonly [operation: string, flops: number])[];

/**
 * Returns, for every operation in start order, the FLOPs that the rank computed between its start and its
 * wait.
 */
function computedMeanwhile({ trace }: ShardedStepResult): Events {
  return trace
    .filter(({ kind }) => kind === 'start')
    .map(({ index, operation, flops }) => {
      const waits = trace.filter((event) => event.kind === 'wait' && event.index === index);
      expect(waits.length, `waits for operation ${index}`).toBe(1);
      return [operation, waits[0]!.flops - flops];
    });
}

describe.each([2, 4])('GptStage on %i tensor-parallel ranks', (size) => {
  const { hiddenSize: h, ffnHiddenSize: f, numLayers } = smallGpt;
  const numTokens = batchSize * sequenceLength;
  const results = new Map<string, ShardedStepResult[]>();
  const key = (sequenceParallel: boolean, name: string): string => `${sequenceParallel} ${name}`;

  beforeAll(async () => {
    const all = [false, true].flatMap((sequenceParallel) =>
      cases.map(([name, options]) => ({ name: key(sequenceParallel, name), options, sequenceParallel })),
    );
    const steps = all.map(
      ({ options, sequenceParallel }): ShardedStepOptions => ({ ...options, sequenceParallel }),
    );
    const before = numLiveTensors();
    const sharded = await runSharded(size, steps);
    // the tensors of all threads of this process
    expect(numLiveTensors()).toBe(before);
    all.forEach(({ name }, index) => {
      results.set(name, sharded[index]!);
    });
  });

  describe.each([false, true])('sequence parallelism %s', (sequenceParallel) => {
    const listResults = (name: string): ShardedStepResult[] => results.get(key(sequenceParallel, name))!;

    it.each(cases)('loss and every gradient equal one process, %s', (name, options) => {
      const tolerance = options.dtype === 'bfloat16' ? bfloat16 : float32;
      const whole = runWhole(options);
      const ranks = listResults(name);
      const { loss, gradient } = distance(ranks, whole);
      expect(loss).toBeLessThanOrEqual(tolerance.loss);
      expect(gradient).toBeLessThanOrEqual(tolerance.gradient);
      for (const { evaluated } of ranks) {
        expect(Math.abs(evaluated - whole.evaluated)).toBeLessThanOrEqual(tolerance.loss);
      }
    });

    it('recomputation and halves apart change nothing, bitwise', () => {
      const plain = listResults('as it is').map(({ loss, gradients }) => ({ loss, gradients }));
      for (const [name, { model, dtype }] of cases) {
        if (model !== undefined || dtype !== undefined) continue;
        expect(
          listResults(name).map(({ loss, gradients }) => ({ loss, gradients })),
          name,
        ).toEqual(plain);
      }
    });

    it('every reduction and every second all-gather overlaps with the next matmul', () => {
      // 2 x tokens x inputs x outputs of this rank, for one matmul of backward
      const matmul = (outputs: number): number => (2 * numTokens * h * outputs) / size;
      const [qkv, up, head] = [matmul(3 * h), matmul(f), matmul(96)];
      const repeat = (events: Events): Events => Array.from({ length: numLayers }, () => events).flat();
      const statistics: Events = [
        ['allReduce', 0],
        ['allReduce', 0],
      ];
      // zeros: the very next operation needs the result
      const expected: Events = sequenceParallel
        ? [
            ['reduceScatter', 0],
            ...repeat([
              ['allGather', 0],
              ['reduceScatter', 0],
              ['allGather', 0],
              ['reduceScatter', 0],
            ]),
            ...[['allGather', 0] as const, ...statistics, ['reduceScatter', head] as const],
            ...repeat([
              ['allGather', 0],
              ['allGather', up],
              ['reduceScatter', up],
              ['allGather', 0],
              ['allGather', qkv],
              ['reduceScatter', qkv],
            ]),
            ['allGather', 0],
          ]
        : [
            ['allReduce', 0],
            ...repeat([
              ['allReduce', 0],
              ['allReduce', 0],
            ]),
            ...[...statistics, ['allReduce', head] as const],
            ...repeat([
              ['allReduce', up],
              ['allReduce', qkv],
            ]),
          ];
      for (const rank of listResults('as it is')) expect(computedMeanwhile(rank)).toEqual(expected);
    });
  });

  // The bytes that a rank sends, as the engine of in-memory ranks counts them. In an all-gather it sends its
  // shard to each other rank, in a reduce-scatter it sends each other rank its shard: (t - 1) / t of the
  // tensor, as on a ring. In an all-reduce it sends the whole tensor to each other rank, where a ring sends 2
  // (t - 1) / t of it: t / 2 times as much.
  const onRing = (bytes: number): number => ((size - 1) / size) * bytes;
  const whole = numTokens * h * 4; // B S H in float32
  const statistics = { calls: 2, bytes: 3 * numTokens * 4 };

  it('communicates per layer what Shoeybi et al. say: 8 B S H (t - 1) / t elements in 4 all-reduces', () => {
    for (const { counts } of results.get(key(false, 'as it is'))!) {
      // in addition to the layers: the sum of embeddings, the sum of the head's input gradients, and the
      // loss's three numbers per token
      expect(counts.allReduce.calls).toBe(4 * numLayers + 2 + statistics.calls);
      const ringBytes = counts.allReduce.sentBytes * (2 / size);
      const layers = ringBytes - 2 * onRing(2 * whole + statistics.bytes);
      expect(layers / numLayers).toBeCloseTo(8 * onRing(whole), 6);
      expect([counts.allGather.calls, counts.reduceScatter.calls]).toEqual([0, 0]);
    }
  });

  it('communicates per layer what Korthikanti et al. say: 4 gatherings, 4 scatterings, 2 gatherings again', () => {
    for (const { counts } of results.get(key(true, 'as it is'))!) {
      // in addition to the layers: the embedding's scattering, its gradient's gathering, and both for the
      // head
      expect(counts.allGather.calls).toBe(6 * numLayers + 2);
      expect(counts.reduceScatter.calls).toBe(4 * numLayers + 2);
      expect(counts.allGather.sentBytes).toBe((6 * numLayers + 2) * onRing(whole));
      expect(counts.reduceScatter.sentBytes).toBe((4 * numLayers + 2) * onRing(whole));
      // the loss reduces three numbers per token, not V
      expect(counts.allReduce.calls).toBe(statistics.calls);
      expect(counts.allReduce.sentBytes * (2 / size)).toBeCloseTo(2 * onRing(statistics.bytes), 6);
    }
  });

  it('repeats the communication of forward with full recomputation', () => {
    const extra = (sequenceParallel: boolean, operation: 'allReduce' | 'allGather' | 'reduceScatter') => {
      const [plain, again] = ['as it is', 'recomputing every layer'].map(
        (name) => results.get(key(sequenceParallel, name))![0]!.counts[operation].calls,
      );
      return again! - plain!;
    };
    expect(extra(false, 'allReduce')).toBe(2 * numLayers);
    expect(extra(true, 'allGather')).toBe(2 * numLayers);
    expect(extra(true, 'reduceScatter')).toBe(2 * numLayers);
  });
});
