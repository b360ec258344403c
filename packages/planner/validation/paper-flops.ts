import type { ModelSize } from '../src/index.js';

/** FLOPs of an iteration with full recomputation, as Narayanan et al. 2021 count them (equation 3). */
export function paperFlops(model: ModelSize, globalBatchSize: number): number {
  const { numLayers: l, hiddenSize: h, sequenceLength: s, vocabularySize: v } = model;
  return 96 * globalBatchSize * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
}

/** FLOPs of a sample without recomputation, attention in full (Korthikanti et al. 2022, equation 7). */
export function modelFlops(model: ModelSize): number {
  const { numLayers: l, hiddenSize: h, sequenceLength: s, vocabularySize: v } = model;
  return 72 * s * l * h * h * (1 + s / (6 * h) + v / (12 * l * h));
}
