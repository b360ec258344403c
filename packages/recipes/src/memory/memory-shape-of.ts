import { type GptModelConfiguration, gptEndsWork, paddedVocabularySize } from '@mtl/models';
import { gptModelConfiguration } from '../build/gpt-model-configuration.js';
import { layersOfChunks } from '../build/layers-of-chunks.js';
import { pipelineSchedule } from '../build/pipeline-schedule.js';
import type { PretrainingConfiguration } from '../pretraining-configuration.js';
import type { MemoryShape, PipelineShape } from './memory-shape.js';

/** What the memory of a rank depends on, for a training with a vocabulary of so many tokens. */
export function memoryShapeOf(configuration: PretrainingConfiguration, vocabularySize: number): MemoryShape {
  const { model, training, parallel } = configuration;
  const gpt = gptModelConfiguration(model, vocabularySize);
  return {
    microBatchSize: training.microBatchSize,
    sequenceLength: model.sequenceLength,
    numLayers: model.numLayers,
    hiddenSize: model.hiddenSize,
    ffnHiddenSize: model.ffnHiddenSize,
    numAttentionHeads: model.numAttentionHeads,
    vocabSize: paddedVocabularySize(gpt),
    maxPositionEmbeddings: model.maxPositionEmbeddings,
    tieEmbeddings: !model.untieEmbeddingsAndOutputWeights,
    bytesPerElement: training.precision === 'fp32' ? 4 : 2,
    hiddenDropout: model.hiddenDropout > 0,
    recomputation: training.recompute,
    tensorParallelSize: parallel.tensorModelParallelSize,
    sequenceParallel: parallel.sequenceParallel,
    optimizerShards: parallel.useDistributedOptimizer ? parallel.dataParallelSize : 1,
    pipeline: parallel.pipelineModelParallelSize === 1 ? undefined : pipelineOf(configuration, gpt),
  };
}

function pipelineOf(configuration: PretrainingConfiguration, model: GptModelConfiguration): PipelineShape {
  const { parallel, training } = configuration;
  const schedule = pipelineSchedule(parallel, training.numMicroBatches);
  const layers = layersOfChunks(configuration, {
    model,
    work: gptEndsWork(model, configuration.model.sequenceLength),
    numChunks: schedule.placement.length,
  });
  return { schedule, numLayers: layers.map(({ start, end }) => end - start) };
}
