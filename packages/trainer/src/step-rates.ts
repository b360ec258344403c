import type { StepMetrics } from './metrics/step-metrics.js';
import type { CompleteTrainerOptions } from './trainer-options.js';

/** The learning rates of a step. */
export type StepRates = Pick<StepMetrics, 'learningRate' | 'decoupledLearningRate'>;

/** Those of the step that follows so many samples. */
export function stepRates<Batch>(
  options: Pick<CompleteTrainerOptions<Batch>, 'optimizer' | 'learningRate' | 'decoupledLearningRate'>,
  consumedSamples: number,
): StepRates {
  const { optimizer, learningRate, decoupledLearningRate } = options;
  const position = { numUpdates: optimizer.numSteps, consumedSamples };
  return {
    learningRate: learningRate(position),
    ...(decoupledLearningRate && { decoupledLearningRate: decoupledLearningRate(position) }),
  };
}
