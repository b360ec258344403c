import type { FlagName, Flags, ResolvedFlags } from '@mtl/configuration';
import { ConfigurationError } from '@mtl/errors';
import type { Profile, Recomputation } from '@mtl/planner';

/** A way in which the processes of a run share its work. */
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

/** Sizes that candidates have to divide, and options that are fixed. */
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
    /** True where processes can share an expert: experts with biases cannot be split. */
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
 * The ways in which the experts of a layer are spread over the processes of a stage: shared by those that
 * share the rest of the layer, or by none, and divided over as many as divide them evenly.
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

/**
 * Returns the part of a layout that the flags give, which `checkLayoutFlags` has checked: a search leaves it
 * as it is.
 */
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

/** Layouts that the program of a profile offers, and the ones it cannot do without: `fixed`. */
type OfferedLayouts = Pick<CandidateSpace, 'schedules' | 'leastInterleavedStages' | 'recomputations'> & {
  readonly fixed: Partial<LayoutCandidate>;
};

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

/** Flags that place layers: candidates place as many on every chunk. */
const placingLayers = [
  'num-layers-per-virtual-pipeline-stage',
  'pipeline-model-parallel-layout',
  'decoder-first-pipeline-num-layers',
  'decoder-last-pipeline-num-layers',
] as const satisfies readonly FlagName[];

interface CheckLayoutFlagsOptions {
  /** The schedules that candidates have. */
  readonly schedules: readonly string[];
}

/**
 * Refuses flags of a layout that a search cannot leave as they are, and a run whose batch depends on its
 * layout.
 *
 * @throws ConfigurationError `MTL_PLAN_LAYOUT`; `MTL_FLAG_REQUIRED` without a global batch size
 */
export function checkLayoutFlags(
  { values, given }: ResolvedFlags,
  { schedules }: CheckLayoutFlagsOptions,
): void {
  for (const flag of placingLayers) {
    if (!given.has(flag)) continue;
    throw new ConfigurationError(
      'MTL_PLAN_LAYOUT',
      `a search cannot leave --${flag} ${values[flag]} as it is`,
      {
        expected: 'layouts with as many layers on every chunk',
        remedy: `leave --${flag} out, or plan that layout without --search`,
        details: { flag },
      },
    );
  }
  const schedule = values['pipeline-schedule'];
  if (schedule !== undefined && !schedules.includes(schedule)) {
    throw new ConfigurationError(
      'MTL_PLAN_LAYOUT',
      `a search cannot leave --pipeline-schedule ${schedule} as it is`,
      {
        expected: `one of ${schedules.join(', ')}`,
        remedy: 'leave --pipeline-schedule out, or plan that schedule without --search',
        details: { flag: 'pipeline-schedule' },
      },
    );
  }
  if (values['global-batch-size'] !== undefined) return;
  throw new ConfigurationError('MTL_FLAG_REQUIRED', '--global-batch-size is missing, which a search needs', {
    expected: 'the batch that all layouts train on: the default depends on the layout',
    remedy: 'pass --global-batch-size SAMPLES',
    details: { flags: ['--global-batch-size'] },
  });
}
