import type { PretrainingConfiguration } from '@mtl/configuration';
import { modelFlops } from '@mtl/trainer';
import { flopsShapeOf } from '../models/flops-shape-of.js';
import { recipeOf } from '../models/recipe-of.js';
import { microBatchesOf } from '../training/micro-batches-of.js';

export interface PredictTimeOptions {
  /** Tokens of the tokenizer, padding not included. */
  readonly vocabularySize: number;
  /**
   * X: model TFLOP/s that each process reaches over whole iterations, waits included, as the summary of a
   * training prints them. The papers' tables count recomputation as well: with full recomputation theirs are
   * 4/3 of these.
   */
  readonly teraflops: number;
}

export interface TimePrediction {
  /** Iterations of the whole training, ramp-up of the batch included. */
  readonly iterations: number;
  /** Tokens that the training sees, T. */
  readonly tokens: number;
  /** Model FLOPs of the whole training, recomputation not counted (`modelFlops`). */
  readonly flops: number;
  /** Seconds of one iteration of the full global batch. */
  readonly iterationSeconds: number;
  /** Seconds of the whole training. */
  readonly seconds: number;
}

/**
 * How long a training takes on all its processes at a rate that was measured or is hoped for: model FLOPs
 * over n X. For a large model the FLOPs are about 6 T P, and with full recomputation the time is Narayanan
 * 2021's 8 T P / (n X) with X as the paper counts it. Evaluation and checkpoints come on top.
 */
export function predictTime(
  configuration: PretrainingConfiguration,
  { vocabularySize, teraflops }: PredictTimeOptions,
): TimePrediction {
  const { model, training, parallel } = configuration;
  const { trainIterations: iterations, globalBatchSize } = training;
  const architecture = recipeOf(configuration).modelOf(configuration, vocabularySize);
  const flopsPerSample = modelFlops(flopsShapeOf(configuration, architecture));
  const samples = microBatchesOf(configuration).samplesAfter(iterations);
  const rate = parallel.worldSize * teraflops * 1e12;
  return {
    iterations,
    tokens: samples * model.sequenceLength,
    flops: samples * flopsPerSample,
    iterationSeconds: (globalBatchSize * flopsPerSample) / rate,
    seconds: (samples * flopsPerSample) / rate,
  };
}
