import type { ProcessGroup } from '@mtl/comm';

/** The way in which rows reach the processes of their experts. */
export type TokenDispatcher = 'alltoall' | 'allgather';

/**
 * The experts that rows without values are taken to choose in a dry run: each as often, or all of them the
 * first k, which is the most that a process can get.
 */
export type AssumedRouting = 'even' | 'first';

/**
 * The sharding of experts over processes. Without it (undefined), or with groups of one process, all experts
 * are here and nothing is communicated. The processes hold different rows.
 */
export interface ExpertParallel {
  /** The processes with different experts (ep), each with as many; undefined: all experts are here. */
  readonly spread?: ProcessGroup | undefined;
  /** The processes that share each expert (etp): its features are sharded; undefined: experts are whole. */
  readonly sharing?: ProcessGroup | undefined;
  /**
   * The processes of both, neighbours sharing an expert (etp fastest). Needed where both have several
   * processes.
   */
  readonly all?: ProcessGroup | undefined;
  /** Default alltoall. */
  readonly dispatcher?: TokenDispatcher | undefined;
  /** Default even. */
  readonly assumedRouting?: AssumedRouting | undefined;
}

/** The number of processes with different experts, and that of this one. */
export const placeAmongExperts = (
  expertParallel: ExpertParallel | undefined,
): { readonly rank: number; readonly size: number } => expertParallel?.spread ?? { rank: 0, size: 1 };
