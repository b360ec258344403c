import type { PretrainingConfiguration } from '@mtl/configuration';
import { distinctRanks, meshOfRun } from '@mtl/configuration/strategies';
import type { TransformerConfiguration } from '@mtl/models';
import { enoughMicroBatches } from '../dry-run/dry-run.js';
import { dryRunRank, metaRun } from '../dry-run/dry-run-rank.js';

/**
 * Returns the peak of a run's memory in bytes, with activations, on the rank that takes most: from building
 * the model to the end of the first step, for the number of threads that is set.
 *
 * @throws KernelError MTL_OUT_OF_MEMORY where device meta cannot count that far: beyond 4 GiB of WebAssembly
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
