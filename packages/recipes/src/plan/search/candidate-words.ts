import type { LayoutCandidate } from './layout-candidates.js';

/** The words of a command line, without those flags that are given already. */
export function candidateWords(candidate: LayoutCandidate, given: ReadonlySet<string>): string[] {
  return Object.entries(candidateFlags(candidate)).flatMap(([flag, value]) => {
    if (given.has(flag)) return [];
    return value === true ? [`--${flag}`] : [`--${flag}`, value];
  });
}

/** The flags that a candidate means. */
function candidateFlags(candidate: LayoutCandidate): Readonly<Record<string, string | true>> {
  const { tensor, pipeline, chunks, microBatch, schedule, recomputation } = candidate;
  return {
    ...(tensor > 1 ? { 'tensor-model-parallel-size': `${tensor}` } : {}),
    ...(pipeline > 1 ? { 'pipeline-model-parallel-size': `${pipeline}` } : {}),
    ...(chunks > 1 ? { 'num-virtual-stages-per-pipeline-rank': `${chunks}` } : {}),
    ...(schedule === 'zb-h1' ? { 'pipeline-schedule': schedule } : {}),
    'micro-batch-size': `${microBatch}`,
    ...(recomputation === 'selective' ? { 'recompute-granularity': 'selective' } : {}),
    ...(recomputation === 'full'
      ? { 'recompute-granularity': 'full', 'recompute-method': 'uniform', 'recompute-num-layers': '1' }
      : {}),
    ...(candidate.sequenceParallel ? { 'sequence-parallel': true } : {}),
    ...(candidate.distributedOptimizer ? { 'use-distributed-optimizer': true } : {}),
  };
}
