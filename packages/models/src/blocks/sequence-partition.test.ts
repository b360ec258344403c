import type { ProcessGroup } from '@mtl/comm';
import { describe, expect, it } from 'vitest';
import { smallBert } from '../../test/tensor-parallel/small-bert.js';
import { smallGpt } from '../../test/tensor-parallel/small-gpt.js';
import { BertStage, BertTaskStage, GptStage } from '../index.js';
import { type SequencePartition, wholeSequence } from './sequence-partition.js';

describe('a sequence partition of two ranks', () => {
  const sequence: SequencePartition = { ...wholeSequence, group: { size: 2 } as ProcessGroup };
  const options = { device: 'cpu', dtype: 'float32', seed: 1, sequence } as const;

  it('leaves a rank half of the positions, and of packed rows', () => {
    const sizes = { batchSize: 2, sequenceLength: 16, sampleNumbers: new Float64Array(2) };
    const gpt = new GptStage({ ...options, model: smallGpt });
    expect(gpt.boundaryShape({ ...sizes, keyStart: undefined })).toEqual([8, 2, 32]);
    const bert = new BertStage({ ...options, model: smallBert });
    // 13 tokens are 16 rows
    expect(bert.boundaryShape({ ...sizes, lengths: Int32Array.of(9, 4) })).toEqual([8, 1, 32]);
  });

  it('is refused where a head reads rows that another rank may own', () => {
    const task = { kind: 'span' } as const;
    expect(() => new BertTaskStage({ ...options, model: smallBert, task })).toThrow(
      expect.objectContaining({ code: 'MTL_STAGE', message: 'a fine-tuning task whose rows ranks share' }),
    );
  });
});
