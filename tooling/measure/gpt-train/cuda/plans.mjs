import { gptMatmuls } from '@mtl/models/internal';
import { modelFlops } from '@mtl/trainer';
import { modelOfPreset } from '../benchmark-presets.mjs';

/** The goals of every model; tokens/s and peak memory are multiples of the yardstick's. */
export const goals = {
  speed: 1.15,
  memory: 0.8,
  /** Largest share of a step that the host is busy: above it, the GPU has waited for the host. */
  host: 0.95,
  /** Largest difference of the planner's step time from the measured one, as a share of the measured one. */
  prediction: 0.1,
};

/**
 * Models of the comparison: micro-batches to try in this order, and the share of the peak that was asked for.
 */
export const plans = {
  'gpt2-124m': { microBatches: [8, 16, 32, 64, 128] },
  'gpt2-355m': { microBatches: [8, 16, 32, 64] },
  'gpt2-1.3b': { microBatches: [4, 8, 16, 32], peakShare: 0.55 },
  'gpt2-2.7b': { microBatches: [2, 4, 8, 16, 32], peakShare: 0.55 },
  'megatron-1.2b': { microBatches: [4, 8, 16, 32] },
  // the first fits 80 GB, the others more
  'megatron-4.2b': { microBatches: [1, 2, 4, 8, 16] },
  'llama-1.2b': { microBatches: [2, 4, 8, 16] },
  'cuda-dry-run': { microBatches: [2, 4] },
  'llama-dry-run': { microBatches: [2, 4] },
};

/** The models that `bench:cuda` times by default. */
export const comparedPresets = Object.keys(plans).filter((name) => !name.endsWith('dry-run'));

/**
 * Returns the model FLOPs of a token, forward and backward: with full attention, and with the half of it that
 * a causal mask leaves.
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
