import { gptMatmuls } from '@mtl/models';
import { modelFlops } from '@mtl/trainer';
import { modelOfPreset } from '../benchmark-presets.mjs';

/**
 * The targets for every model. The targets for tokens/s and peak memory are multiples of PyTorch's values.
 */
export const goals = {
  speed: 1.15,
  memory: 0.8,
  /**
   * The largest acceptable fraction of a step during which the host is busy. Above this fraction, the GPU has
   * waited for the host.
   */
  host: 0.95,
  /**
   * The largest acceptable difference between the planner's step time and the measured step time, as a
   * fraction of the measured time.
   */
  prediction: 0.1,
};

/**
 * The models to compare. Each has the micro-batch sizes to try, in order, and the required fraction of the
 * GPU's peak.
 */
export const plans = {
  'gpt2-124m': { microBatches: [8, 16, 32, 64, 128] },
  'gpt2-355m': { microBatches: [8, 16, 32, 64] },
  'gpt2-1.3b': { microBatches: [4, 8, 16, 32], peakShare: 0.55 },
  'gpt2-2.7b': { microBatches: [2, 4, 8, 16, 32], peakShare: 0.55 },
  'megatron-1.2b': { microBatches: [4, 8, 16, 32] },
  // the first model fits on a GPU with 80 GB, the following models need more
  'megatron-4.2b': { microBatches: [1, 2, 4, 8, 16] },
  'llama-1.2b': { microBatches: [2, 4, 8, 16] },
  'cuda-dry-run': { microBatches: [2, 4] },
  'llama-dry-run': { microBatches: [2, 4] },
};

/** The models that `bench:cuda` times by default. */
export const comparedPresets = Object.keys(plans).filter((name) => !name.endsWith('dry-run'));

/**
 * Returns the model FLOPs of a token in the forward and backward passes, once with full attention, and once
 * with causal attention, which needs half of attention's FLOPs.
 */
export function flopsPerToken(preset) {
  const model = modelOfPreset(preset);
  const { hiddenSize, maxPositionEmbeddings: sequenceLength, vocabularySize } = model;
  const shape = {
    batchSize: 1,
    sequenceLength,
    headWeights: vocabularySize * hiddenSize,
    ...gptMatmuls(model),
  };
  return {
    full: modelFlops(shape) / sequenceLength,
    halved: modelFlops({ ...shape, attention: 'causal' }) / sequenceLength,
  };
}
