import { buildSplitDatasets, type SplitDatasets, type SplitDatasetsOptions } from './build-split-datasets.js';
import {
  type GptDatasetSettings,
  gptDatasetIdentifiers,
  openGptDataset,
  openMockGptDataset,
} from './gpt-dataset.js';
import type { SplitName } from './split.js';

/** The datasets of a run. */
export interface GptDatasetsOptions
  extends Omit<GptDatasetSettings, 'cacheDirectory' | 'splitWeights' | 'onCacheEvent'>,
    SplitDatasetsOptions {}

/** The parts of a run's data; undefined where the split is zero wide or no samples are asked for. */
export type GptDatasets = SplitDatasets;

/** Megatron's sample counts from iterations: train, one evaluation per interval and a last one, one test. */
export function sampleTargets(options: {
  readonly trainIters: number;
  readonly evalInterval: number;
  readonly evalIters: number;
  readonly globalBatchSize: number;
}): Record<SplitName, number> {
  const { trainIters, evalInterval, evalIters, globalBatchSize } = options;
  return {
    train: trainIters * globalBatchSize,
    valid: (Math.floor(trainIters / evalInterval) + 1) * evalIters * globalBatchSize,
    test: evalIters * globalBatchSize,
  };
}

/** Opens train, valid and test of one dataset or a blend, with Megatron's rules for sizes and surplus. */
export function buildGptDatasets(options: GptDatasetsOptions): GptDatasets {
  return buildSplitDatasets(options, {
    open: (part) =>
      options.blend.isMock === true
        ? openMockGptDataset({ ...options, ...part })
        : openGptDataset({ ...options, ...part }),
    identifiers: (part) => gptDatasetIdentifiers({ ...options, ...part }),
  });
}
