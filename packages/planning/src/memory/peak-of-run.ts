import type { PretrainingConfiguration } from '@mtl/configuration';
import { distinctRanks, meshOfRun } from '@mtl/configuration/strategies';
import type { TransformerConfiguration } from '@mtl/models';
import { enoughMicroBatches } from '../dry-run/dry-run.js';
import { dryRunRank, metaRun } from '../dry-run/dry-run-rank.js';

/**
 * Returns the peak of a run's memory in bytes, including activations, on the rank with the highest peak. The
 * peak is measured from building the model to the end of the first step, with the current number of threads.
 *
 * @throws KernelError MTL_OUT_OF_MEMORY if device meta cannot count that far: with the WebAssembly kernels,
 * beyond 4 GiB
 */
export async function peakBytesOfRun(
  configuration: PretrainingConfiguration,
  model: TransformerConfiguration,
): Promise<number> {
  const run = metaRun(configuration, { numMicroBatches: enoughMicroBatches(configuration) });
  let peak = 0;
  for (const rank of distinctRanks(meshOfRun(configuration.parallel))) {
    peak = Math.max(peak, (await dryRunRank(run, { rank, model })).peakBytes);
  }
  return peak;
}
