import type { PretrainingConfiguration } from '@mtl/configuration';
import { microBatchesOf } from '@mtl/run-parts/internal';
import type { TrainingProgress } from '@mtl/trainer';

/**
 * A configuration with the steps that its run takes from where it really goes on: the flags know that of the
 * checkpoint of --load alone, while a run that is restarted goes on from what it has saved itself.
 */
export function goingOnFrom(
  configuration: PretrainingConfiguration,
  progress: TrainingProgress | undefined,
): PretrainingConfiguration {
  const { trainSamples } = configuration.training;
  if (progress === undefined || trainSamples === undefined) return configuration;
  const { iteration, consumedSamples } = progress;
  const start = { iteration, consumedSamples };
  const training = { ...configuration.training, start };
  const begun = { ...configuration, training };
  const trainIterations = microBatchesOf(begun).iterationsFor(trainSamples, start);
  return { ...begun, training: { ...training, trainIterations } };
}
