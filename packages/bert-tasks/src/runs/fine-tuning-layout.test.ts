import { describe, expect, it } from 'vitest';
import { fineTuningLayout } from './fine-tuning-layout.js';

const model = {
  numLayers: 2,
  hiddenSize: 32,
  ffnHiddenSize: 128,
  numAttentionHeads: 2,
  vocabularySize: 50,
  makeVocabularySizeDivisibleBy: 16,
  maxPositionEmbeddings: 16,
  hiddenDropout: 0.1,
  attentionDropout: 0.1,
  layerNormEpsilon: 1e-12,
  geluKind: 'erf' as const,
  initMethodStd: 0.02,
  tokenTypeVocabularySize: 2,
  sentenceOrderHead: false,
  layerNormPlacement: 'post' as const,
};

describe('the layout of a fine-tuning', () => {
  const asked = { parallel: { device: 'cuda', 'cuda-graphs': true }, recompute: {} } as const;
  const sizes = { globalBatchSize: 4, microBatchSize: 2 };
  const makeLayout = (task: 'qqp' | 'race' | 'squad') =>
    fineTuningLayout({ task, ...asked, ...sizes }, { model, worldSize: 1 });

  it('records passes of classification and choice, and refuses spans', () => {
    expect(makeLayout('qqp').parallel.cudaGraphs).toBe(true);
    expect(makeLayout('race').parallel.cudaGraphs).toBe(true);
    expect(() => makeLayout('squad')).toThrow(
      expect.objectContaining({ code: 'MTL_CUDA_GRAPHS', remedy: 'leave --cuda-graphs out' }),
    );
  });
});
