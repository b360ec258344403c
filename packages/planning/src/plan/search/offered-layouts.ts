import type { Profile } from '@mtl/planner';
import type { CandidateSpace, LayoutCandidate } from './layout-candidates.js';

/** What the program of a profile offers, and with what it cannot: `fixed`. */
export type OfferedLayouts = Pick<
  CandidateSpace,
  'schedules' | 'leastInterleavedStages' | 'recomputations'
> & { readonly fixed: Partial<LayoutCandidate> };

/** The layouts that the program of a profile has. */
export function offeredLayouts({ software }: Profile): OfferedLayouts {
  if (software.operations === 'recorded') {
    return {
      schedules: ['1f1b', 'zb-h1', 'interleaved'],
      leastInterleavedStages: 2,
      // attention keeps no scores: there is nothing that selective recomputation leaves out
      recomputations: ['none', 'full'],
      fixed: {},
    };
  }
  const { layouts, distributedOptimizer } = software;
  return {
    schedules: layouts.schedules,
    leastInterleavedStages: layouts.leastInterleavedStages,
    recomputations: layouts.recomputations,
    fixed: {
      context: 1,
      ...(layouts.schedules.length === 0 ? { pipeline: 1 } : {}),
      ...(layouts.sequenceParallel ? {} : { sequenceParallel: false }),
      ...(distributedOptimizer ? {} : { distributedOptimizer: false }),
    },
  };
}
