import type { ModelSize } from '../src/index.js';

/** FLOPs of an iteration with full recomputation, as Narayanan et al. 2021 count them (equation 3). */
export function paperFlops(model: ModelSize, globalBatchSize: number): number {
  const { numLayers: l, hiddenSize: h, sequenceLength: s, vocabularySize: v } = model;
  return 96 * globalBatchSize * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
}
