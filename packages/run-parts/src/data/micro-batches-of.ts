import type { PretrainingConfiguration } from '@mtl/configuration';
import { NumMicroBatches } from '@mtl/optimizer';

/** How the global batches of a training run are split into micro-batches. */
export function microBatchesOf({ training, parallel }: PretrainingConfiguration): NumMicroBatches {
  const { globalBatchSize, microBatchSize, rampup, start } = training;
  const { dataParallelSize } = parallel;
  return new NumMicroBatches({
    globalBatchSize,
    microBatchSize,
    dataParallelSize,
    consumedSamples: start?.consumedSamples,
    ...(rampup === undefined ? {} : { rampup }),
  });
}
