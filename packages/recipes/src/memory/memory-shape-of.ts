import { paddedVocabularySize } from '@mtl/models';
import { gptModelConfiguration } from '../build/gpt-model-configuration.js';
import type { GptConfiguration } from '../gpt-configuration.js';
import type { MemoryShape } from './predict-memory.js';

/** What the memory of a rank depends on, for a training with a vocabulary of so many tokens. */
export function memoryShapeOf(configuration: GptConfiguration, vocabularySize: number): MemoryShape {
  const { model, training, parallel } = configuration;
  return {
    microBatchSize: training.microBatchSize,
    sequenceLength: model.sequenceLength,
    numLayers: model.numLayers,
    hiddenSize: model.hiddenSize,
    ffnHiddenSize: model.ffnHiddenSize,
    numAttentionHeads: model.numAttentionHeads,
    vocabSize: paddedVocabularySize(gptModelConfiguration(model, vocabularySize)),
    maxPositionEmbeddings: model.maxPositionEmbeddings,
    tieEmbeddings: !model.untieEmbeddingsAndOutputWeights,
    bytesPerElement: training.precision === 'fp32' ? 4 : 2,
    hiddenDropout: model.hiddenDropout > 0,
    recomputation: training.recompute,
    tensorParallelSize: parallel.tensorModelParallelSize,
    sequenceParallel: parallel.sequenceParallel,
    optimizerShards: parallel.useDistributedOptimizer ? parallel.dataParallelSize : 1,
  };
}
