import type { ResolvedFlags } from '@mtl/configuration';
import type { LayoutCandidate } from './layout-candidates.js';

/** What of a layout the flags give, which `checkLayoutFlags` has checked: a search leaves it as it is. */
export function fixedLayout({ values, given }: ResolvedFlags): Partial<LayoutCandidate> {
  const fixed: { -readonly [Key in keyof LayoutCandidate]?: LayoutCandidate[Key] } = {};
  if (given.has('tensor-model-parallel-size')) fixed.tensor = values['tensor-model-parallel-size']!;
  if (given.has('context-parallel-size')) fixed.context = values['context-parallel-size']!;
  if (given.has('pipeline-model-parallel-size')) fixed.pipeline = values['pipeline-model-parallel-size']!;
  if (given.has('num-virtual-stages-per-pipeline-rank')) {
    fixed.chunks = values['num-virtual-stages-per-pipeline-rank']!;
  }
  if (given.has('micro-batch-size')) fixed.microBatch = values['micro-batch-size']!;
  // a checkpoint may give it, too
  if (values['recompute-granularity'] !== undefined) fixed.recomputation = values['recompute-granularity'];
  if (given.has('sequence-parallel')) fixed.sequenceParallel = values['sequence-parallel']!;
  if (given.has('use-distributed-optimizer')) {
    fixed.distributedOptimizer = values['use-distributed-optimizer']!;
  }
  if (given.has('expert-model-parallel-size')) fixed.expert = values['expert-model-parallel-size']!;
  if (given.has('expert-tensor-parallel-size')) fixed.expertTensor = values['expert-tensor-parallel-size']!;
  const schedule = values['pipeline-schedule'];
  if (schedule !== undefined) fixed.schedule = schedule as LayoutCandidate['schedule'];
  return fixed;
}
