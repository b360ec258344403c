import type { PretrainingConfiguration } from '@mtl/configuration';
import { metaDeviceOf } from '@mtl/kernels/internal';

/**
 * A training run on device `meta` or `meta-cuda`: one value for all ranks of a dry run, which share its
 * schedules.
 */
export interface MetaRun {
  /** Of the run on the device that counts, with the micro-batches that are run. */
  readonly configuration: PretrainingConfiguration;
  /** Micro-batches of a step of the run that is modelled, for each that is run. */
  readonly scale: number;
}

/**
 * The dry run of a training run. Of a step, `numMicroBatches` are run (see `enoughMicroBatches`; default:
 * all).
 */
export function metaRun(
  run: PretrainingConfiguration,
  { numMicroBatches = run.training.numMicroBatches }: { readonly numMicroBatches?: number } = {},
): MetaRun {
  const { rampup: _, ...training } = run.training;
  const { microBatchSize } = training;
  return {
    scale: run.training.numMicroBatches / numMicroBatches,
    configuration: {
      ...run,
      parallel: { ...run.parallel, device: metaDeviceOf(run.parallel.device) },
      training: {
        ...training,
        numMicroBatches,
        globalBatchSize: numMicroBatches * microBatchSize * run.parallel.dataParallelSize,
      },
    },
  };
}
