import type { Recomputation } from '@mtl/planner';

/** How the processes of a run share its work. */
export interface LayoutCandidate {
  readonly tensor: number;
  /** Processes over which every sequence is divided; absent: 1. */
  readonly context?: number;
  readonly pipeline: number;
  readonly data: number;
  /** v: chunks of the model on each rank. */
  readonly chunks: number;
  readonly microBatch: number;
  readonly schedule: 'none' | '1f1b' | 'interleaved' | 'zb-h1' | 'gpipe';
  readonly recomputation: Recomputation;
  readonly sequenceParallel: boolean;
  readonly distributedOptimizer: boolean;
  /** Processes over which the experts of a layer are divided; absent without experts. */
  readonly expert?: number;
  /** Processes that share an expert; absent without experts. */
  readonly expertTensor?: number;
}

/** What candidates have to divide, and what is fixed. */
export interface CandidateSpace {
  readonly numProcesses: number;
  readonly gpusPerNode: number;
  readonly numLayers: number;
  /** Heads, and groups of keys and values: what tensor parallelism divides. */
  readonly headCounts: readonly number[];
  readonly globalBatchSize: number;
  /** Sizes of context parallelism other than 1 that divide the sequence, and are worth it. */
  readonly contexts: readonly number[];
  /** Absent without experts. */
  readonly experts?: {
    readonly number: number;
    /** Whether processes can share one: experts with biases cannot be split. */
    readonly areSplit: boolean;
    /** F of an expert. */
    readonly ffnHiddenSize: number;
  };
  readonly fixed: Partial<LayoutCandidate>;
  readonly schedules: readonly LayoutCandidate['schedule'][];
  /** Fewest stages of the interleaved schedule. */
  readonly leastInterleavedStages: number;
  /** Ways to recompute that differ. */
  readonly recomputations: readonly Recomputation[];
}

/** All layouts that divide what they have to divide. */
export function layoutCandidates(space: CandidateSpace): LayoutCandidate[] {
  const { numProcesses: n, headCounts, fixed } = space;
  const candidates: LayoutCandidate[] = [];
  for (const tensor of options(fixed.tensor, powersOfTwo(2 * space.gpusPerNode))) {
    if (n % tensor !== 0 || headCounts.some((count) => count % tensor !== 0)) continue;
    for (const context of options(fixed.context, [1, ...space.contexts])) {
      const rest = n / tensor / context;
      if (!Number.isInteger(rest)) continue;
      for (const pipeline of options(fixed.pipeline, divisorsOf(rest))) {
        if (rest % pipeline !== 0) continue;
        const data = rest / pipeline;
        if (fixed.data !== undefined && fixed.data !== data) continue;
        candidates.push(...ofMesh(space, { tensor, ...(context === 1 ? {} : { context }), pipeline, data }));
      }
    }
  }
  return candidates;
}

type Mesh = Pick<LayoutCandidate, 'tensor' | 'context' | 'pipeline' | 'data'>;

/**
 * How the experts of a layer are spread over the processes of a stage: shared by those that share the rest of
 * the layer, or by none, and divided over as many as divide them evenly.
 */
function expertSizes(
  { experts, fixed }: CandidateSpace,
  { tensor, context = 1, data }: Pick<Mesh, 'tensor' | 'context' | 'data'>,
): Pick<LayoutCandidate, 'expert' | 'expertTensor'>[] {
  if (experts === undefined) return [{}];
  const stage = tensor * context * data;
  const shared = experts.areSplit && tensor > 1 ? [1, tensor] : [1];
  return options(fixed.expertTensor, shared)
    .filter((size) => stage % size === 0 && experts.ffnHiddenSize % size === 0)
    .flatMap((expertTensor) =>
      options(fixed.expert, divisorsOf(experts.number))
        .filter((expert) => experts.number % expert === 0 && (stage / expertTensor) % expert === 0)
        .map((expert) => ({ expert, expertTensor })),
    );
}

function ofMesh(space: CandidateSpace, mesh: Mesh): LayoutCandidate[] {
  const { numLayers, globalBatchSize, fixed } = space;
  if (globalBatchSize % mesh.data !== 0) return [];
  const candidates: LayoutCandidate[] = [];
  for (const chunks of options(fixed.chunks, mesh.pipeline === 1 ? [1] : [1, 2, 3, 4, 5, 6, 8])) {
    if (numLayers % (mesh.pipeline * chunks) !== 0) continue;
    for (const microBatch of options(fixed.microBatch, powersOfTwo(64))) {
      const numMicroBatches = globalBatchSize / mesh.data / microBatch;
      if (!Number.isInteger(numMicroBatches)) continue;
      if (chunks > 1 && (numMicroBatches % mesh.pipeline !== 0 || mesh.pipeline === 1)) continue;
      for (const schedule of schedulesOf(space, { ...mesh, chunks })) {
        candidates.push(...withSettings(space, { ...mesh, chunks, microBatch, schedule }));
      }
    }
  }
  return candidates;
}

function schedulesOf(
  { fixed, schedules, leastInterleavedStages }: CandidateSpace,
  { pipeline, chunks }: Pick<LayoutCandidate, 'pipeline' | 'chunks'>,
): readonly LayoutCandidate['schedule'][] {
  // there a schedule that is given has no effect
  if (pipeline === 1) return ['none'];
  if (fixed.schedule === 'gpipe') return chunks > 1 ? [] : ['gpipe'];
  const isInterleaved = chunks > 1;
  return schedules.filter(
    (name) =>
      (name === 'interleaved') === isInterleaved &&
      (!isInterleaved || pipeline >= leastInterleavedStages) &&
      (fixed.schedule === undefined || name === fixed.schedule),
  );
}

function withSettings(
  space: CandidateSpace,
  layout: Omit<LayoutCandidate, 'recomputation' | 'sequenceParallel' | 'distributedOptimizer'>,
): LayoutCandidate[] {
  const { fixed, recomputations: all } = space;
  const recomputations = options(fixed.recomputation, all);
  const sequence = layout.tensor === 1 ? [false] : options(fixed.sequenceParallel, [true, false]);
  const copies = layout.data * (layout.context ?? 1);
  const distributed = copies === 1 ? [false] : options(fixed.distributedOptimizer, [true, false]);
  const experts = expertSizes(space, layout);
  return recomputations.flatMap((recomputation) =>
    sequence.flatMap((sequenceParallel) =>
      distributed.flatMap((distributedOptimizer) =>
        experts.map((sizes) => ({
          ...layout,
          recomputation,
          sequenceParallel,
          distributedOptimizer,
          ...sizes,
        })),
      ),
    ),
  );
}

const options = <Value>(fixed: Value | undefined, all: readonly Value[]): readonly Value[] =>
  fixed === undefined ? all : [fixed];

const powersOfTwo = (most: number): number[] =>
  Array.from({ length: Math.floor(Math.log2(most)) + 1 }, (_, power) => 2 ** power);

const divisorsOf = (value: number): number[] =>
  Array.from({ length: value }, (_, index) => index + 1).filter((divisor) => value % divisor === 0);
