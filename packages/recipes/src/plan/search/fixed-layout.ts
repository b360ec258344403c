import type { ResolvedFlags } from '@mtl/configuration';
import type { LayoutCandidate } from './layout-candidates.js';

/** What of a layout the flags give: a search leaves it as it is. */
export function fixedLayout({ values, given }: ResolvedFlags): Partial<LayoutCandidate> {
  const fixed: { -readonly [Key in keyof LayoutCandidate]?: LayoutCandidate[Key] } = {};
  if (given.has('tensor-model-parallel-size')) fixed.tensor = values['tensor-model-parallel-size']!;
  if (given.has('pipeline-model-parallel-size')) fixed.pipeline = values['pipeline-model-parallel-size']!;
  if (given.has('num-virtual-stages-per-pipeline-rank')) {
    fixed.chunks = values['num-virtual-stages-per-pipeline-rank']!;
  }
  if (given.has('micro-batch-size')) fixed.microBatch = values['micro-batch-size']!;
  if (given.has('recompute-granularity')) fixed.recomputation = values['recompute-granularity']!;
  if (given.has('sequence-parallel')) fixed.sequenceParallel = values['sequence-parallel']!;
  if (given.has('use-distributed-optimizer')) {
    fixed.distributedOptimizer = values['use-distributed-optimizer']!;
  }
  return fixed;
}
