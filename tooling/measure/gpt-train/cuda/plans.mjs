import { gptMatmuls } from '@mtl/models/internal';
import { modelFlops } from '@mtl/trainer';
import { modelOfPreset } from '../benchmark-presets.mjs';

/** The goals of every model: tokens/s and peak memory as multiples of the yardstick's. */
export const goals = {
  speed: 1.15,
  memory: 0.8,
  /** The host's time of a step as a share of it: beyond, the GPU has waited for the host. */
  host: 0.95,
  /** How far the planner's step may be from the measured one, as a share of it. */
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
 * Model FLOPs of a token, forward and backward: attention in full, and the half of it that a causal mask
 * leaves.
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
