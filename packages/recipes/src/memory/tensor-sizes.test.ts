import { describe, expect, it } from 'vitest';
import type { MemoryShape } from './memory-shape.js';
import { tensorSizes } from './tensor-sizes.js';

const shape: MemoryShape = {
  microBatchSize: 1,
  sequenceLength: 31,
  numLayers: 2,
  hiddenSize: 32,
  ffnHiddenSize: 128,
  numAttentionHeads: 4,
  vocabSize: 128,
  maxPositionEmbeddings: 32,
  tieEmbeddings: true,
  bytesPerElement: 4,
  hiddenDropout: true,
  recomputation: { granularity: 'none' },
  tensorParallelSize: 2,
  sequenceParallel: true,
  optimizerShards: 1,
  pipeline: undefined,
  bert: {
    layerNormPlacement: 'pre',
    sentenceOrderHead: true,
    maskProbability: 0.15,
    tokenTypeVocabularySize: 2,
  },
};

describe('tensorSizes', () => {
  it('counts the rows that fill a sequence up to what its ranks can cut', () => {
    expect(tensorSizes(shape)).toMatchObject({ rows: 32, residualRows: 16, residual: 16 * 4 * 32 });
    expect(tensorSizes({ ...shape, sequenceParallel: false })).toMatchObject({ rows: 31, residualRows: 31 });
  });

  it('has as many logits at a time as their device takes', () => {
    // 50,304 bytes a row and 12 of statistics: 8,192 rows in pieces of 2,048, on a GPU of 4,096
    const large = { ...shape, bert: undefined, sequenceLength: 8192, vocabSize: (2 * 50304) / 4 };
    expect(tensorSizes(large).logits).toBe(2048 * (50304 + 12));
    expect(tensorSizes({ ...large, device: 'cuda' }).logits).toBe(4096 * (50304 + 12));
  });
});
