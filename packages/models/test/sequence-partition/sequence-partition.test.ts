import { runInMemoryRanks } from '@mtl/comm/testing';
import { rankThreads } from '@mtl/tooling/typescript-threads';
import { describe, expect, it } from 'vitest';
import { ownedPositions } from '../../src/blocks/sequence-partition.js';
import { BertStage, GptStage, wholeSequence } from '../../src/index.js';
import { smallBert } from '../tensor-parallel/small-bert.js';
import { buildGpt, computeStep, smallGpt } from '../tensor-parallel/small-gpt.js';
import type { ZigzagStepOptions, ZigzagStepResult } from './ranks/zigzag-step.js';

const module = new URL('./ranks/zigzag-step.ts', import.meta.url);
const one: ZigzagStepOptions = { tp: 1, sequenceParallel: false, splitAndRecomputed: false };

/** Values of a whole tensor that are in a box of it. */
function inBox(
  values: Float32Array,
  { globalShape, slices }: Pick<ZigzagStepResult['gradients'][number], 'globalShape' | 'slices'>,
): number[] {
  let rows: number[] = [0];
  globalShape.forEach((size, dim) => {
    const { start, end } = slices[dim]!;
    rows = rows.flatMap((row) =>
      Array.from({ length: end - start }, (_, index) => row * size + start + index),
    );
  });
  return rows.map((index) => values[index]!);
}

describe('a GPT whose ranks own two slices of each sequence', () => {
  const built = buildGpt({});
  const whole = computeStep(built, {});
  built.dispose();
  const norms = new Map(whole.gradients.map(({ name, values }) => [name, values]));

  it.each([
    { worldSize: 2, options: [one, { ...one, splitAndRecomputed: true }] },
    {
      worldSize: 4,
      options: [one, { ...one, tp: 2 }, { tp: 2, sequenceParallel: true, splitAndRecomputed: true }],
    },
  ])('has on $worldSize ranks the loss and the gradients of one process, dropout included', async (run) => {
    const results = await runInMemoryRanks<ZigzagStepResult[]>({
      worldSize: run.worldSize,
      ...rankThreads(module),
      argument: run.options,
      timeoutMs: 60_000,
    });
    for (const rank of results) {
      for (const { loss, gradients } of rank) {
        // float32 rounding of sums in another order, as between other layouts
        expect(Math.abs(loss - whole.loss)).toBeLessThan(2e-6 * whole.loss);
        expect(gradients.map(({ name }) => name)).toEqual([...norms.keys()]);
        for (const gradient of gradients) {
          const expected = inBox(norms.get(gradient.name)!, gradient);
          const norm = Math.hypot(...norms.get(gradient.name)!);
          const difference = Math.hypot(...expected.map((value, index) => value - gradient.values[index]!));
          expect(difference, gradient.name).toBeLessThan(1e-5 * norm);
        }
      }
    }
  });
});

describe('a sequence partition', () => {
  const of = (...slices: (readonly [number, number])[]) => ({
    ...wholeSequence,
    slices: () => slices.map(([start, end]) => ({ start, end })),
  });

  it('owns its slices in their order', () => {
    expect([...ownedPositions(of([6, 8], [0, 2]), 8)]).toEqual([6, 7, 0, 1]);
    expect([...ownedPositions(wholeSequence, 3)]).toEqual([0, 1, 2]);
  });

  it.each([
    [of([0, 3], [2, 4]), '0 to 3, 2 to 4'],
    [of([4, 9]), '4 to 9'],
    [of([-1, 2]), '-1 to 2'],
    [of([3, 2]), '3 to 2'],
  ])('refuses slices that overlap or leave the sequence (%#)', (partition, written) => {
    expect(() => ownedPositions(partition, 8)).toThrow(
      expect.objectContaining({
        code: 'MTL_STAGE',
        message: `a partition of 8 positions owns ${written}`,
      }),
    );
  });

  it('is that of a GPT only', () => {
    const options = { device: 'cpu', dtype: 'float32', seed: 1, sequence: of([0, 4]) } as const;
    expect(
      new GptStage({ ...options, model: smallGpt }).boundaryShape({
        batchSize: 2,
        sequenceLength: 8,
        sampleNumbers: new Float64Array(2),
        keyStart: undefined,
      }),
    ).toEqual([4, 2, 32]);
    expect(() => new BertStage({ ...options, model: smallBert })).toThrow(
      /a BERT whose sequences are divided/,
    );
  });
});
