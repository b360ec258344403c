import { NumMicroBatches } from '@mtl/optimizer';
import type { PretrainingConfiguration } from '../pretraining-configuration.js';

/** How the global batches of a training run are split into micro-batches. */
export function microBatchesOf({ training, parallel }: PretrainingConfiguration): NumMicroBatches {
  const { globalBatchSize, microBatchSize, rampup } = training;
  const { dataParallelSize } = parallel;
  return new NumMicroBatches({
    globalBatchSize,
    microBatchSize,
    dataParallelSize,
    ...(rampup === undefined ? {} : { rampup }),
  });
}
