import type { PretrainingConfiguration } from '@mtl/configuration';
import { distinctRanks, meshOfRun } from '@mtl/configuration/strategies';
import { observeOperations } from '@mtl/kernels';
import { MatmulCalls } from '@mtl/kernels/matmul-choices';
import type { TransformerConfiguration } from '@mtl/models';
import { enoughMicroBatches } from '../dry-run/dry-run.js';
import { type DryRunListener, dryRunRank, metaRun } from '../dry-run/dry-run-rank.js';

/** Returns a listener that adds the matmuls of a dry run's steps to `calls`. */
export function listenerFor(calls: MatmulCalls): DryRunListener {
  return {
    beginStep: () => {},
    endStep: () => {},
    span: (_, body) => observeOperations(calls.observe, body),
  };
}

/** Returns the matmuls that each kind of rank computes in a step. */
export async function matmulsOfRun(
  configuration: PretrainingConfiguration,
  model: TransformerConfiguration,
): Promise<MatmulCalls> {
  const calls = new MatmulCalls();
  const listener = listenerFor(calls);
  const run = metaRun(configuration, { numMicroBatches: enoughMicroBatches(configuration) });
  for (const rank of distinctRanks(meshOfRun(configuration.parallel)))
    await dryRunRank(run, { rank, model, listener });
  return calls;
}
