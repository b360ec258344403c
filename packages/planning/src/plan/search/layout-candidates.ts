import type { FlagName, Flags, ResolvedFlags } from '@mtl/configuration';
import {
  layoutOfRecord,
  meshOfRun,
  powersOfTwo,
  type RecordedSizes,
  type SearchedAxis,
  type SearchedRun,
  type SearchedSettings,
  searchedAxes,
  searchedSettings,
} from '@mtl/configuration/strategies';
import type { Profile, Recomputation } from '@mtl/cost-model';
import { ConfigurationError } from '@mtl/errors';
import { axisFacts, isDenseAxis, type MeshAxis, type MeshCoordinates } from '@mtl/layout';
import { shardingStrategies, storeOfStrategy } from '@mtl/optimizer';

/** A layout that a search considers. The size `context` is set only if sequences are sharded. */
export interface LayoutCandidate extends RecordedSizes, SearchedSettings {
  /** The number of model chunks on each rank. */
  readonly chunks: number;
  readonly microBatch: number;
  readonly schedule: 'none' | '1f1b' | 'interleaved' | 'zb-h1' | 'gpipe';
  readonly recomputation: Recomputation;
}

/** The constraints of candidates: values that sizes must divide, and fixed settings. */
export interface CandidateSpace extends Pick<SearchedRun, 'values' | 'model' | 'gpusPerNode'> {
  readonly numProcesses: number;
  readonly numLayers: number;
  readonly globalBatchSize: number;
  readonly fixed: Partial<LayoutCandidate>;
  readonly schedules: readonly LayoutCandidate['schedule'][];
  /** The smallest number of stages for the interleaved schedule. */
  readonly leastInterleavedStages: number;
  /** For each setting that the program supports only in part, the supported values. */
  readonly offered: { readonly [Key in keyof SearchedSettings]?: readonly SearchedSettings[Key][] };
  /** The kinds of recomputation to consider, which differ in cost. */
  readonly recomputations: readonly Recomputation[];
}

type Sizes = Readonly<Partial<Record<MeshAxis, number>>>;

const axesOfMesh = searchedAxes.filter(({ axis }) => isDenseAxis(axis));
const axesOfExperts = searchedAxes.filter(({ axis }) => !isDenseAxis(axis));

/** Returns a candidate's sizes along the axes of dense layers. */
export const sizesOfMesh = (candidate: LayoutCandidate): readonly (number | undefined)[] =>
  axesOfMesh.map(({ key }) => candidate[key]);

/** Returns a candidate's sizes along the axes of experts. */
export const sizesOfExperts = (candidate: LayoutCandidate): readonly (number | undefined)[] =>
  axesOfExperts.map(({ key }) => candidate[key]);

/** Returns all layouts whose sizes divide the model, the batch and the processes evenly. */
export function layoutCandidates(space: CandidateSpace): LayoutCandidate[] {
  return sizesAlong(axesOfMesh, { space, chosen: {}, rest: space.numProcesses }).flatMap((sizes) =>
    ofMesh(space, recordSizes(sizes) as Mesh),
  );
}

/**
 * Returns the ways to distribute processes along axes, in an order in which the sizes of the first axes
 * change last.
 */
function sizesAlong(
  [first, ...others]: readonly SearchedAxis[],
  { space, chosen, rest }: { readonly space: CandidateSpace; readonly chosen: Sizes; readonly rest: number },
): readonly Sizes[] {
  if (first === undefined) return [chosen];
  const { values, model, gpusPerNode, fixed } = space;
  const searched = first.search({ values, model, gpusPerNode, sizes: chosen, rest });
  if (searched === undefined) return sizesAlong(others, { space, chosen, rest });
  return options(fixed[first.key], searched.sizes)
    .filter((size) => searched.fits(size))
    .flatMap((size) =>
      sizesAlong(others, { space, chosen: { ...chosen, [first.axis]: size }, rest: rest / size }),
    );
}

/** Returns the sizes under the keys that candidates use. An optional axis with size 1 is left out. */
function recordSizes(sizes: Sizes): Partial<RecordedSizes> {
  const isLeftOut = ({ axis, flag }: SearchedAxis): boolean =>
    sizes[axis] === undefined ||
    (axisFacts[axis].isSummed === true && flag !== undefined && sizes[axis] === 1);
  return Object.fromEntries(
    searchedAxes.filter((each) => !isLeftOut(each)).map(({ axis, key }) => [key, sizes[axis]!]),
  );
}

type Mesh = Pick<LayoutCandidate, 'tensor' | 'context' | 'pipeline' | 'data'>;

/** Returns the ways to shard a layer's experts over a stage's processes. */
function expertSizes(space: CandidateSpace, mesh: Mesh): readonly Partial<RecordedSizes>[] {
  const { sizes, worldSize } = meshOfRun(layoutOfRecord(mesh));
  const chosen = Object.fromEntries(axesOfMesh.map(({ axis }) => [axis, sizes[axis]]));
  const own = sizesAlong(axesOfExperts, { space, chosen, rest: worldSize / sizes.pp });
  return own.map((all) =>
    recordSizes(Object.fromEntries(axesOfExperts.map(({ axis }) => [axis, all[axis]]))),
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
      for (const schedule of listSchedules(space, { ...mesh, chunks })) {
        candidates.push(...withSettings(space, { ...mesh, chunks, microBatch, schedule }));
      }
    }
  }
  return candidates;
}

function listSchedules(
  { fixed, schedules, leastInterleavedStages }: CandidateSpace,
  { pipeline, chunks }: Pick<LayoutCandidate, 'pipeline' | 'chunks'>,
): readonly LayoutCandidate['schedule'][] {
  // without a pipeline, the given schedule has no effect
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
  layout: Omit<LayoutCandidate, 'recomputation' | keyof SearchedSettings>,
): LayoutCandidate[] {
  const { fixed, recomputations: all } = space;
  const recomputations = options(fixed.recomputation, all);
  const settings = listSettings(space, meshOfRun(layoutOfRecord(layout)).sizes);
  const experts = expertSizes(space, layout);
  return recomputations.flatMap((recomputation) =>
    settings.flatMap((chosen) =>
      experts.map((ofExperts) => ({ ...layout, recomputation, ...chosen, ...ofExperts })),
    ),
  );
}

/** Returns all combinations of settings, in an order in which the first settings change last. */
function listSettings(
  { fixed, offered }: CandidateSpace,
  sizes: MeshCoordinates,
): readonly SearchedSettings[] {
  return searchedSettings.reduce<readonly object[]>(
    (before, { key, choices }) => {
      const own: readonly unknown[] | undefined = offered[key];
      const listValues = (chosen: object): readonly unknown[] => {
        const possible = choices(sizes, chosen as Readonly<Record<string, unknown>>);
        if (possible.length === 1) return possible;
        return options(
          fixed[key],
          possible.filter((value) => own?.includes(value) !== false),
        );
      };
      return before.flatMap((chosen) => listValues(chosen).map((value) => ({ ...chosen, [key]: value })));
    },
    [{}],
  ) as readonly SearchedSettings[];
}

const options = <Value>(fixed: Value | undefined, all: readonly Value[]): readonly Value[] =>
  fixed === undefined ? all : [fixed];

/** Returns the flags for the sizes that differ from the mesh's defaults. */
function flagsOfSizes(candidate: LayoutCandidate, axes: readonly SearchedAxis[]): Flags {
  const { sizes } = meshOfRun(layoutOfRecord(candidate));
  return Object.fromEntries(
    axes.flatMap(({ axis, key, flag }) => {
      const { like } = axisFacts[axis];
      const usual = like === undefined ? 1 : sizes[like];
      const size = candidate[key] ?? usual;
      return flag === undefined || size === usual ? [] : [[flag, size] as const];
    }),
  );
}

/** The axes of experts, sorted so that a size whose default is another axis's size comes after that size. */
const axesOfExpertFlags = [...axesOfExperts].sort(
  (a, b) => Number(axisFacts[a.axis].like !== undefined) - Number(axisFacts[b.axis].like !== undefined),
);

/** Returns the flags for a candidate's settings, except settings that the given flags already determine. */
function flagsOfSettings(
  candidate: LayoutCandidate,
  fixed: Partial<LayoutCandidate>,
  { changesPasses }: { readonly changesPasses: boolean },
): Flags {
  const own = searchedSettings.filter(
    (setting) => setting.changesPasses === changesPasses && fixed[setting.key] === undefined,
  );
  return Object.assign({}, ...own.map(({ key, flags }) => flags(candidate[key]))) as Flags;
}

/** Returns a candidate's flags, except flags that are already given. */
export function candidateFlags(candidate: LayoutCandidate, resolved: ResolvedFlags): Flags {
  const { given } = resolved;
  const fixed = fixedLayout(resolved);
  const { chunks, microBatch, schedule, recomputation } = candidate;
  const all: Flags = {
    ...flagsOfSizes(candidate, axesOfMesh),
    ...(chunks > 1 ? { 'num-virtual-stages-per-pipeline-rank': chunks } : {}),
    ...(schedule === 'zb-h1' ? { 'pipeline-schedule': schedule } : {}),
    'micro-batch-size': microBatch,
    ...(recomputation === 'selective' ? { 'recompute-granularity': 'selective' } : {}),
    ...(recomputation === 'full'
      ? { 'recompute-granularity': 'full', 'recompute-method': 'uniform', 'recompute-num-layers': 1 }
      : {}),
    ...flagsOfSettings(candidate, fixed, { changesPasses: true }),
    ...flagsOfSizes(candidate, axesOfExpertFlags),
    ...flagsOfSettings(candidate, fixed, { changesPasses: false }),
  };
  return Object.fromEntries(Object.entries(all).filter(([flag]) => !given.has(flag as FlagName)));
}

/**
 * Returns the layout settings that the given flags determine. A search keeps them. `checkLayoutFlags` must
 * have checked the flags.
 */
export function fixedLayout({ values, given }: ResolvedFlags): Partial<LayoutCandidate> {
  const settings = searchedSettings.flatMap(({ key, givenBy, given: meant }) => {
    const [first] = (givenBy as readonly FlagName[])
      .filter((name) => given.has(name))
      .flatMap((name) => meant(name, values[name]) ?? []);
    return first === undefined ? [] : [[key, first]];
  });
  const fixed: { -readonly [Key in keyof LayoutCandidate]?: LayoutCandidate[Key] } =
    Object.fromEntries(settings);
  for (const { key, flag } of searchedAxes) {
    if (flag !== undefined && given.has(flag as FlagName)) fixed[key] = values[flag as FlagName] as number;
  }
  if (given.has('num-virtual-stages-per-pipeline-rank')) {
    fixed.chunks = values['num-virtual-stages-per-pipeline-rank']!;
  }
  if (given.has('micro-batch-size')) fixed.microBatch = values['micro-batch-size']!;
  // a checkpoint may also determine this value, so not only flags count
  if (values['recompute-granularity'] !== undefined) fixed.recomputation = values['recompute-granularity'];
  const numInstances = values['num-distributed-optimizer-instances'];
  if (numInstances !== undefined && numInstances > 1) {
    throw refusedLayout('num-distributed-optimizer-instances', {
      value: numInstances,
      expected: 'one instance: estimates divide states over all data-parallel ranks',
    });
  }
  const schedule = values['pipeline-schedule'];
  if (schedule !== undefined) fixed.schedule = schedule as LayoutCandidate['schedule'];
  return fixed;
}

/** The layouts that a profile's program supports. `fixed` contains the settings that it always has. */
type OfferedLayouts = Pick<
  CandidateSpace,
  'schedules' | 'leastInterleavedStages' | 'recomputations' | 'offered'
> & {
  readonly fixed: Partial<LayoutCandidate>;
};

/** The sizes that programs with listed operations support. */
const listedSizes: readonly (keyof RecordedSizes)[] = ['tensor', 'data', 'pipeline'];

/** Returns the layouts that the profile's program supports. */
export function offeredLayouts({ software, hardware }: Profile): OfferedLayouts {
  if (software.operations === 'recorded') {
    // where threads share cores, overlapped communication slows computation by as much as it saves
    const overlap = [hardware.overlapCost.value < 1];
    return {
      schedules: ['1f1b', 'zb-h1', 'interleaved'],
      leastInterleavedStages: 2,
      // selective recomputation is left out because it would save nothing: attention keeps no scores
      recomputations: ['none', 'full'],
      offered: { overlapGradReduce: overlap, overlapParamGather: overlap },
      fixed: {},
    };
  }
  const { layouts, distributedOptimizer } = software;
  return {
    schedules: layouts.schedules,
    leastInterleavedStages: layouts.leastInterleavedStages,
    recomputations: layouts.recomputations,
    offered: {
      ...(layouts.sequenceParallel ? {} : { sequenceParallel: [false] }),
      // only strategies that shard no states other than the program's sharded states are offered
      dataParallelShardingStrategy: shardingStrategies.filter((strategy) =>
        storeOfStrategy(strategy).divides.every((state) => state === 'optimizer' && distributedOptimizer),
      ),
      // the program's overlap is fixed and does not depend on flags
      overlapGradReduce: [false],
      overlapParamGather: [false],
    },
    fixed: {
      // operation lists cover only tensor, data and pipeline parallelism
      ...Object.fromEntries(
        axesOfMesh.filter(({ key }) => !listedSizes.includes(key)).map(({ key }) => [key, 1]),
      ),
      ...(layouts.schedules.length === 0 ? { pipeline: 1 } : {}),
    },
  };
}

/**
 * Flags for the placement of layers. A search rejects them, because its candidates have the same number of
 * layers on every chunk.
 */
const placingLayers = [
  'num-layers-per-virtual-pipeline-stage',
  'pipeline-model-parallel-layout',
  'decoder-first-pipeline-num-layers',
  'decoder-last-pipeline-num-layers',
] as const satisfies readonly FlagName[];

/**
 * Rejects a store that reduces gradients in every micro-batch, because operation lists do not contain such
 * reductions.
 */
function refuseDividedUnits({ values, given }: Pick<ResolvedFlags, 'values' | 'given'>): void {
  const strategy = values['data-parallel-sharding-strategy'];
  const flag =
    strategy === undefined ? ('use-megatron-fsdp' as const) : ('data-parallel-sharding-strategy' as const);
  const divides = strategy === undefined || storeOfStrategy(strategy).divides.includes('gradients');
  if (!given.has(flag) || values[flag] === false || !divides) return;
  throw refusedLayout(flag, {
    value: values[flag],
    expected:
      'gradients that all ranks keep, or a profile whose operations are recorded, such as h100-80gb: the ' +
      'lists of what other programs run reduce gradients once a step',
  });
}

/** Returns the error for a flag whose value a search cannot keep. */
const refusedLayout = (
  flag: FlagName,
  { value, expected }: { readonly value: unknown; readonly expected: string },
): ConfigurationError =>
  new ConfigurationError('MTL_PLAN_LAYOUT', `a search cannot leave --${flag} ${value} as it is`, {
    expected,
    remedy: `leave --${flag} out, or plan that layout without --search`,
    details: { flag },
  });

interface CheckLayoutFlagsOptions {
  /** The schedules that candidates may have. */
  readonly schedules: readonly string[];
  /** True if the operations of the profile's program are recorded, false if they are listed. */
  readonly isRecorded: boolean;
}

/**
 * Rejects layout flags that a search cannot keep, and a run whose batch size depends on its layout.
 *
 * @throws ConfigurationError `MTL_PLAN_LAYOUT`; `MTL_FLAG_REQUIRED` without a global batch size
 */
export function checkLayoutFlags(
  { values, given }: ResolvedFlags,
  { schedules, isRecorded }: CheckLayoutFlagsOptions,
): void {
  for (const flag of placingLayers) {
    if (!given.has(flag)) continue;
    throw refusedLayout(flag, {
      value: values[flag],
      expected: 'layouts with the same number of layers on every chunk',
    });
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
  if (!isRecorded) refuseDividedUnits({ values, given });
  if (values['global-batch-size'] !== undefined) return;
  throw new ConfigurationError('MTL_FLAG_REQUIRED', '--global-batch-size is missing, which a search needs', {
    expected: 'the batch that all layouts train on: the default depends on the layout',
    remedy: 'pass --global-batch-size SAMPLES',
    details: { flags: ['--global-batch-size'] },
  });
}
