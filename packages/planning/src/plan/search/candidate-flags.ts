import type { Flags } from '@mtl/configuration';
import type { LayoutCandidate } from './layout-candidates.js';

/** The flags that a candidate means, without those that are given already. */
export function candidateFlags(candidate: LayoutCandidate, given: ReadonlySet<string>): Flags {
  const { tensor, pipeline, chunks, microBatch, schedule, recomputation } = candidate;
  const { context = 1, expert = 1, expertTensor = tensor } = candidate;
  const all: Flags = {
    ...(tensor > 1 ? { 'tensor-model-parallel-size': tensor } : {}),
    ...(context > 1 ? { 'context-parallel-size': context } : {}),
    ...(pipeline > 1 ? { 'pipeline-model-parallel-size': pipeline } : {}),
    ...(chunks > 1 ? { 'num-virtual-stages-per-pipeline-rank': chunks } : {}),
    ...(schedule === 'zb-h1' ? { 'pipeline-schedule': schedule } : {}),
    'micro-batch-size': microBatch,
    ...(recomputation === 'selective' ? { 'recompute-granularity': 'selective' } : {}),
    ...(recomputation === 'full'
      ? { 'recompute-granularity': 'full', 'recompute-method': 'uniform', 'recompute-num-layers': 1 }
      : {}),
    ...(candidate.sequenceParallel ? { 'sequence-parallel': true } : {}),
    ...(expert > 1 ? { 'expert-model-parallel-size': expert } : {}),
    ...(expertTensor === tensor ? {} : { 'expert-tensor-parallel-size': expertTensor }),
    ...(candidate.distributedOptimizer ? { 'use-distributed-optimizer': true } : {}),
  };
  return Object.fromEntries(Object.entries(all).filter(([flag]) => !given.has(flag)));
}
