import type { StepMetrics } from '../../src/metrics/training-reports.js';

/** Returns the metrics of a step of a training run whose loss falls by one a step. */
export function exampleStep(iteration: number, change: Partial<StepMetrics> = {}): StepMetrics {
  return {
    iteration,
    consumedSamples: iteration * 16,
    consumedTokens: iteration * 4096,
    globalBatchSize: 16,
    loss: 5 - iteration,
    gradNorm: 1,
    learningRate: 1e-3,
    lossScale: 1,
    skipped: false,
    stepMs: 1000,
    tokensPerSecond: 4096,
    modelTflops: 0.2,
    peakBytes: 1,
    ...change,
  };
}
