import { describe, expect, it } from 'vitest';
import { smallBert } from '../../test/tensor-parallel/small-bert.js';
import { smallGpt } from '../../test/tensor-parallel/small-gpt.js';
import { BertStage, GptStage } from '../index.js';
import { ownedPositions, wholeSequence } from './sequence-partition.js';

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
