import { configure } from '@mtl/configuration';
import { planRun } from '@mtl/planning';
import { modelOfPreset } from '../benchmark-presets.mjs';

/**
 * Returns the configuration of the benchmark's training: a model in benchmark-presets.mjs, one micro-batch
 * per step, no dropout, no recomputation.
 */
export function benchmarkConfiguration({ preset, microBatch, dtype = 'bfloat16' }) {
  const {
    addBiasLinear,
    vocabularySize: vocabSize,
    makeVocabularySizeDivisibleBy: _padding,
    layerNormEpsilon: _epsilon,
    geluKind: _gelu,
    initMethodStd: _std,
    tieEmbeddings: _tied,
    ...model
  } = modelOfPreset(preset);
  return configure({
    preset: 'none',
    model: { ...model, disableBiasLinear: addBiasLinear === false },
    data: {
      dataPath: ['bundled'],
      sequenceLength: model.maxPositionEmbeddings,
      vocabSize,
      tokenizerType: 'NullTokenizer',
    },
    training: {
      microBatchSize: microBatch,
      globalBatchSize: microBatch,
      trainIterations: 1,
      bf16: dtype === 'bfloat16',
    },
    optimizer: { maxLearningRate: 1 },
    layout: { device: 'cuda' },
  });
}

/**
 * Predicts the time and the memory of a benchmark step, using a profile of its GPU.
 * @returns { Promise<{ step_ms: number, peak_bytes: number }> } the step time, and the allocator's peak
 */
export async function predictStep({ profile, ...run }) {
  const { iterationSeconds, ranks } = await planRun(benchmarkConfiguration(run), { profile });
  return { step_ms: 1000 * iterationSeconds, peak_bytes: ranks[0].memoryBytes };
}
