import type { RunOptions } from '../../src/options/run-options.js';

/** Options of a run without a preset that pass all checks. */
export const smallRun = {
  preset: 'none',
  model: { numLayers: 4, hiddenSize: 64, numAttentionHeads: 4, maxPositionEmbeddings: 32 },
  training: { microBatchSize: 2, trainIterations: 100 },
  optimizer: { maxLearningRate: 1e-3 },
  data: { dataPath: ['bundled'], sequenceLength: 32 },
} as const satisfies RunOptions;
