import { type BertConfiguration, type PretrainingConfiguration, scheduleOfStep } from '@mtl/configuration';
import { paddedVocabularySize, type TransformerConfiguration } from '@mtl/models';
import { layersOfChunks } from '../models/layers-of-chunks.js';
import { recipeOf } from '../models/recipe-of.js';
import { checkPredictable } from './check-predictable.js';
import type { BertShape, MemoryShape, PipelineShape } from './memory-shape.js';

/**
 * What the memory of a rank depends on, for a training with a vocabulary of so many tokens.
 *
 * @throws ConfigurationError MTL_MEMORY_BLOCKS for blocks that the formulas do not describe
 */
export function memoryShapeOf(configuration: PretrainingConfiguration, vocabularySize: number): MemoryShape {
  checkPredictable(configuration);
  const { kind, model, training, parallel } = configuration;
  const architecture = recipeOf(configuration).modelOf(configuration, vocabularySize);
  return {
    microBatchSize: training.microBatchSize,
    sequenceLength: model.sequenceLength,
    numLayers: model.numLayers,
    hiddenSize: model.hiddenSize,
    ffnHiddenSize: model.ffnHiddenSize,
    numAttentionHeads: model.numAttentionHeads,
    vocabSize: paddedVocabularySize(architecture),
    maxPositionEmbeddings: model.maxPositionEmbeddings,
    // the head of a BERT always is
    tieEmbeddings: kind === 'bert' || !model.untieEmbeddingsAndOutputWeights,
    bytesPerElement: training.precision === 'fp32' ? 4 : 2,
    hiddenDropout: model.hiddenDropout > 0,
    recomputation: training.recompute,
    tensorParallelSize: parallel.tensorModelParallelSize,
    sequenceParallel: parallel.sequenceParallel,
    device: parallel.device,
    cudaGraphs: parallel.cudaGraphs,
    optimizerShards: parallel.useDistributedOptimizer ? parallel.dataParallelSize : 1,
    bert: configuration.bert && bertShape(configuration.bert),
    pipeline: parallel.pipelineModelParallelSize === 1 ? undefined : pipelineOf(configuration, architecture),
  };
}

function bertShape({ layerNormPlacement, sentenceOrderHead, maskProbability }: BertConfiguration): BertShape {
  return { layerNormPlacement, sentenceOrderHead, maskProbability, tokenTypeVocabularySize: 2 };
}

function pipelineOf(configuration: PretrainingConfiguration, model: TransformerConfiguration): PipelineShape {
  const { parallel, training } = configuration;
  const schedule = scheduleOfStep(parallel, training.numMicroBatches);
  const layers = layersOfChunks(configuration, {
    model,
    work: recipeOf(configuration).embeddingAndHeadCost(configuration, model),
    numChunks: schedule.placement.length,
  });
  return { schedule, numLayers: layers.map(({ start, end }) => end - start) };
}
