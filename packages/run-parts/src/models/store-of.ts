import type { ParallelConfiguration } from '@mtl/configuration';
import type { StoreName } from '@mtl/optimizer';

/** How a run keeps its parameters. */
export function storeOf({
  useDistributedOptimizer,
}: Pick<ParallelConfiguration, 'useDistributedOptimizer'>): StoreName {
  return useDistributedOptimizer ? 'zero1' : 'replicated';
}
