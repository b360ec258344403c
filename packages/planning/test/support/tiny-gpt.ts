import { configure, type PretrainingConfiguration, type RunOptions } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';

/** A GPT of four layers on the bundled text, for runs that are only described, not computed. */
export const tinyGpt: RunOptions = {
  preset: 'none',
  model: { numLayers: 4, hiddenSize: 64, numAttentionHeads: 4, maxPositionEmbeddings: 32 },
  data: { dataPath: ['bundled'], sequenceLength: 32, tokenizerType: 'NullTokenizer', vocabSize: 999 },
  training: { microBatchSize: 2, trainIterations: 3 },
  optimizer: { maxLearningRate: 1e-3 },
  layout: { threads: 1 },
};

/** Options of `t` ranks of tensor parallelism and `p` stages. */
export const layout = ({ t = 1, p = 1 }: { readonly t?: number; readonly p?: number }): RunOptions => ({
  layout: { tensorModelParallelSize: t, pipelineModelParallelSize: p },
});

/** The run of `tinyGpt` with these options over its own. */
export const configureTinyGpt = (options: RunOptions, worldSize = 1): PretrainingConfiguration =>
  configure(mergeOptions(tinyGpt, options), { worldSize });
