import { configure } from '@mtl/configuration';
import { planRun } from '@mtl/planning';
import { modelOfPreset } from '../benchmark-presets.mjs';

/**
 * Returns the configuration of what the benchmark trains: a model of benchmark-presets.mjs, a micro-batch a
 * step, no dropout, nothing recomputed.
 */
export function benchmarkConfiguration({ preset, microBatch, dtype = 'bfloat16' }) {
  const { addBiasLinear, vocabularySize, ...model } = modelOfPreset(preset);
  const { numLayers, hiddenSize, ffnHiddenSize, numAttentionHeads, maxPositionEmbeddings } = model;
  const { groupQueryAttention, numQueryGroups, normalization, swiglu } = model;
  const { positionEmbeddingType, rotaryBase } = model;
  return configure({
    preset: 'none',
    model: {
      ...{ numLayers, hiddenSize, ffnHiddenSize, numAttentionHeads, maxPositionEmbeddings },
      ...{ groupQueryAttention, numQueryGroups, normalization, swiglu, positionEmbeddingType, rotaryBase },
      ...{ disableBiasLinear: addBiasLinear === false, hiddenDropout: 0, attentionDropout: 0 },
    },
    data: {
      ...{ dataPath: ['bundled'], seqLength: maxPositionEmbeddings },
      ...{ vocabSize: vocabularySize, tokenizerType: 'NullTokenizer' },
    },
    training: {
      ...{ microBatchSize: microBatch, globalBatchSize: microBatch, trainIters: 1 },
      bf16: dtype === 'bfloat16',
    },
    optimizer: { lr: 1 },
    layout: { device: 'cuda' },
  });
}

/**
 * Predicts a step of the benchmark with a profile of its GPU.
 * @returns { Promise<{ step_ms: number, peak_bytes: number }> } of the step and of the allocator
 */
export async function predictStep({ profile, ...run }) {
  const { iterationSeconds, ranks } = await planRun(benchmarkConfiguration(run), { profile });
  return { step_ms: 1000 * iterationSeconds, peak_bytes: ranks[0].memoryBytes };
}
