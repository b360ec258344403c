import {
  axisFacts,
  type CommunicationAxis,
  type DenseAxis,
  type GroupDeclaration,
  isDenseAxis,
  type MeshAxis,
  meshViews,
  ProcessMesh,
  shareOfBatch,
} from '@mtl/layout';
import { flagFacts } from '../flags/flag-kinds.js';
import type { AllOf, FlagFragment } from '../flags/flag-values.js';
import { contextParallelism } from './context-parallelism.js';
import { dataParallelism } from './data-parallelism.js';
import { expertParallelism } from './expert-parallelism.js';
import { pipelineParallelism } from './pipeline-parallelism.js';
import {
  type AxisSize,
  costsOfSaving,
  formatAxes,
  greatestCommonDivisor,
  type ImpliedSwitch,
  type MemorySaving,
  type ModelSharing,
  type ModelSharingOptions,
  numAlong,
  type OptimizerSharing,
  type SearchedRun,
  type SearchedSetting,
  type SearchedSizes,
  type SharedModel,
  type Strategy,
  type StrategyCall,
} from './strategy.js';
import { tensorParallelism } from './tensor-parallelism.js';

/**
 * All forms of parallelism. The order matters: data parallelism gets the processes that remain after the
 * strategies before it. Experts are sharded over the processes of a stage, independently of the other weights
 * of a layer. Runs, help, errors, dry runs and plans all use this list.
 */
export const strategies = [
  tensorParallelism,
  contextParallelism,
  pipelineParallelism,
  dataParallelism,
  expertParallelism,
] as const;

type Known = (typeof strategies)[number];

/** The settings of all strategies in a run's configuration. */
export type StrategyConfiguration = AllOf<
  ReturnType<Known['configure']> | ReturnType<NonNullable<Known['complete']>>
>;

type AnyStrategy = Strategy<FlagFragment, Record<string, unknown>>;
type Sizes = Readonly<Partial<Record<string, number>>>;
const all = strategies as unknown as readonly AnyStrategy[];

/** The flags of all strategies. */
export const strategyFlags: AllOf<Known['flags']> = Object.assign({}, ...all.map(({ flags }) => flags));

/**
 * Conflicting flags of strategies: for each flag, the flags that set the same property differently. A flag
 * overrides the flags in its list that come from a source of lower precedence.
 */
export const displacedByStrategies: Readonly<Record<string, readonly string[]>> = Object.assign(
  {},
  ...all.map(({ displaces }) => displaces),
);

/** Flag values that imply a switch of a strategy. */
export const impliedSwitches: readonly ImpliedSwitch[] = all.flatMap(({ impliedBy }) => impliedBy ?? []);

/** Returns help about the values of the flag `name` that imply a switch of a strategy. */
export const helpOfImpliedSwitches = (name: string): string =>
  impliedSwitches
    .filter(({ flag }) => flag === name)
    .map(({ flag, value, instead, turnsOn }) => `${value} means --${flag} ${instead} --${turnsOn}`)
    .join('; ');

const listAxes = ({ axes }: AnyStrategy, fields: object): readonly AxisSize[] =>
  axes.flatMap(({ name, field }) => {
    const size = (fields as Sizes)[field];
    return size === undefined ? [] : [{ axis: name, word: axisFacts[name].word, size }];
  });

/** Returns the settings of all strategies, from the flags. */
export function configureStrategies(call: Omit<StrategyCall<FlagFragment>, 'axes'>): StrategyConfiguration {
  const axes: AxisSize[] = [];
  const configured = all.map((each) => {
    const fields = each.configure({ ...call, axes });
    axes.push(...listAxes(each, fields));
    return { each, fields };
  });
  const completed = configured.map(({ each, fields }) => each.complete?.(fields, { ...call, axes }));
  return Object.assign({}, ...configured.map(({ fields }) => fields), ...completed) as StrategyConfiguration;
}

/** The sizes of the axes of a run, under the names in `StrategyConfiguration`. */
export type AxisSizes = Pick<
  StrategyConfiguration,
  | 'tensorModelParallelSize'
  | 'contextParallelSize'
  | 'hierarchicalContextParallelSizes'
  | 'pipelineModelParallelSize'
  | 'dataParallelSize'
  | 'numDistributedOptimizerInstances'
  | 'expertModelParallelSize'
  | 'expertTensorParallelSize'
>;

/**
 * The flags of the strategies that models with task heads support. These models are BERTs without experts,
 * and process complete sequences.
 */
export const strategyFlagsOfTasks: AllOf<
  (typeof tensorParallelism | typeof pipelineParallelism | typeof dataParallelism)['flags']
> = Object.assign({}, tensorParallelism.flags, pipelineParallelism.flags, dataParallelism.flags);

/** Megatron-LM's other names for flags of strategies. */
export const aliasesOfStrategies: Readonly<Record<string, { readonly flag: keyof typeof strategyFlags }>> =
  Object.assign({}, ...all.map(({ aliases }) => aliases));

/** Returns the flags of strategies that only the given kind of model supports. */
export const strategyFlagsOfKind = (kind: NonNullable<AnyStrategy['kind']>): readonly string[] =>
  all.flatMap((each) => (each.kind === kind ? Object.keys(each.flags) : []));

/**
 * The flags that set the size of an axis along which forward and backward passes communicate on the device.
 */
export const flagsOfPassCommunication: readonly string[] = all.flatMap(({ communicatesInPasses, axes }) =>
  communicatesInPasses === true ? axes.flatMap(({ flag }) => flag ?? []) : [],
);

/** The help texts of the flags that determine how processes share a trained model. */
export const sharingHelp: Readonly<Record<string, string>> = Object.assign(
  {},
  ...all.map(({ sharing }) => sharing?.help),
);

/**
 * Returns the layout in which processes share a trained model, given values of the flags in `sharingHelp`.
 *
 * @throws ConfigurationError for sizes that do not fit together
 */
export function sharedLayout(values: Readonly<Record<string, number | undefined>>): AxisSizes {
  const axes: AxisSize[] = [];
  const fields = all.map((each) => {
    const own = each.sharing?.configure(values, axes) ?? {};
    axes.push(...listAxes(each, own));
    return own;
  });
  return Object.assign({}, ...fields) as AxisSizes;
}

/**
 * Rejects layouts that do not support generation.
 *
 * @throws ConfigurationError from the strategy that does not support generation
 */
export function checkGeneration(values: Readonly<Record<string, number | undefined>>): void {
  for (const { sharing } of all) sharing?.checkGeneration?.(values);
}

/**
 * Rejects layouts in which processes cannot share the given trained model.
 *
 * @throws ConfigurationError from the strategy that does not support the model
 */
export function checkSharedModel(
  model: { readonly numExperts?: number | undefined },
  shared: SharedModel,
): void {
  for (const { sharing } of all) sharing?.checkModel?.(model, shared);
}

/**
 * Returns the options of a model's stages that determine how processes share the model. `parallel` is the
 * layout of a run.
 */
export function modelSharing({
  groups,
  parallel = {},
  assumedRouting,
}: Pick<ModelSharingOptions<object>, 'groups' | 'assumedRouting'> & {
  readonly parallel?: Partial<StrategyConfiguration>;
}): ModelSharing {
  const parts = all.map(({ ofModel }) => ofModel?.({ groups, fields: parallel, assumedRouting }));
  return Object.assign({}, ...parts) as ModelSharing;
}

/** The flag that sets the size of each axis. */
const flagsOfAxes: ReadonlyMap<MeshAxis, string> = new Map(
  all.flatMap(({ axes }) => axes.flatMap(({ name, flag }) => (flag === undefined ? [] : [[name, flag]]))),
);

/**
 * Returns the smallest number of processes that the given sizes require: the processes for one replica of the
 * model with its experts.
 */
export function leastProcesses(flags: Readonly<Record<string, unknown>>): number {
  const findSize = (axis: MeshAxis): number => {
    const { like } = axisFacts[axis];
    const given = flags[flagsOfAxes.get(axis) ?? ''];
    return typeof given === 'number' ? given : like === undefined ? 1 : findSize(like);
  };
  const ofViews = Object.values(meshViews).map((view) =>
    view.reduce((product, axis) => (axis === 'pp' ? product : product * findSize(axis)), 1),
  );
  return ofViews.reduce((a, b) => (a / greatestCommonDivisor(a, b)) * b) * findSize('pp');
}

/** The sizes of the axes, under the keys in run records. */
export interface RecordedSizes {
  readonly tensor: number;
  readonly context?: number;
  readonly pipeline: number;
  readonly data: number;
  readonly expert?: number;
  readonly expertTensor?: number;
}

/** The key of each axis's size in run records, and the field in a configuration. */
const recordKeys = all.flatMap(({ axes }) =>
  axes.map(({ name, field, recordedAs = axisFacts[name].word }) => [recordedAs, field] as const),
);

/** Returns an object with the same values under new keys. Absent values are left out. */
const renamed = (values: Sizes, keys: readonly (readonly [to: string, from: string])[]): object =>
  Object.fromEntries(keys.flatMap(([to, from]) => (values[from] === undefined ? [] : [[to, values[from]]])));

/** Returns the sizes of the axes of a run under the keys in run records. */
export const recordedSizes = (parallel: AxisSizes): RecordedSizes =>
  renamed(parallel as unknown as Sizes, recordKeys) as RecordedSizes;

/** Converts the sizes in a run record to a layout. */
export const layoutOfRecord = (sizes: RecordedSizes): AxisSizes =>
  renamed(
    sizes as unknown as Sizes,
    recordKeys.map(([key, field]) => [field, key]),
  ) as AxisSizes;

/** An axis whose size a layout search varies. */
export interface SearchedAxis {
  readonly axis: MeshAxis;
  /** The axis's key in `RecordedSizes`. */
  readonly key: keyof RecordedSizes;
  /** The flag for the axis's size; undefined for the axis of the remaining processes. */
  readonly flag: string | undefined;
  readonly search: (run: SearchedRun) => SearchedSizes | undefined;
}

/**
 * The axes whose sizes a layout search varies, in the order of `strategies`, for dense layers and experts.
 */
export const searchedAxes: readonly SearchedAxis[] = all.flatMap(({ axes }) =>
  axes.flatMap(({ name, flag, recordedAs = axisFacts[name].word, search }) =>
    search === undefined ? [] : [{ axis: name, key: recordedAs as keyof RecordedSizes, flag, search }],
  ),
);

/** Returns a layout without the sizes of expert axes. */
export const withoutExperts = <Parallel extends AxisSizes>(parallel: Parallel): Parallel => {
  const fields = all.flatMap(({ axes }) =>
    axes.flatMap(({ name, field }) => (isDenseAxis(name) ? [] : [field])),
  );
  return Object.fromEntries(Object.entries(parallel).filter(([key]) => !fields.includes(key))) as Parallel;
};

/** Returns the axes along which a run splits work, with their sizes, in the order of `strategies`. */
function axesOfRun(parallel: AxisSizes): readonly AxisSize[] {
  return all.flatMap((each) => listAxes(each, parallel));
}

/** Returns the mesh of a run's processes. */
export function meshOfRun(parallel: AxisSizes): ProcessMesh {
  return new ProcessMesh(Object.fromEntries(axesOfRun(parallel).map(({ axis, size }) => [axis, size])));
}

/**
 * Returns the number of equal shares into which every batch is divided. Different processes compute different
 * shares.
 */
export function numSharesOfBatch(parallel: AxisSizes): number {
  return shareOfBatch(meshOfRun(parallel), 0).count;
}

/** The settings that a layout search varies in addition to sizes, under their keys. */
export type SearchedSettings = Pick<
  StrategyConfiguration,
  'sequenceParallel' | 'dataParallelShardingStrategy' | 'overlapGradReduce' | 'overlapParamGather'
>;

/** The settings that a layout search varies in addition to sizes, in the order of `strategies`. */
export const searchedSettings: readonly (SearchedSetting & { readonly key: keyof SearchedSettings })[] =
  all.flatMap(({ settings = [] }) => settings as []);

/** A change to a run's flags, and how much time it costs. */
export interface FlagChange {
  readonly values: Readonly<Record<string, unknown>>;
  readonly costs: MemorySaving<object>['costs'];
}

/** Returns changes to a layout that may reduce the memory that its processes need. */
export const savingsOfLayout = (
  parallel: StrategyConfiguration,
  { hasExperts }: { readonly hasExperts: boolean },
): readonly FlagChange[] => {
  const { sizes } = meshOfRun(parallel);
  const run = { fields: parallel as unknown as Record<string, unknown>, sizes, hasExperts };
  return all.flatMap(({ savings = [] }) =>
    savings.flatMap(({ flag, costs, values }) =>
      values(run).map((value) => ({ costs, values: { [flag]: value } })),
    ),
  );
};

/** The switches that reduce the memory that processes need, in the order of increasing cost in time. */
export const switchesThatSave: readonly string[] = all
  .flatMap(({ savings = [] }) => savings)
  .filter(({ flag }) => flagFacts.get(strategyFlags[flag as keyof typeof strategyFlags])?.kind === 'boolean')
  .sort((a, b) => costsOfSaving.indexOf(a.costs) - costsOfSaving.indexOf(b.costs))
  .map(({ flag }) => flag);

/** The flags that divide a model among more processes, without the flags that split sequences. */
export const flagsThatDivideModel: readonly string[] = all.flatMap(({ axes }) =>
  axes.flatMap(({ name, flag }) =>
    flag === undefined || !isDenseAxis(name) || axisFacts[name].isSummed === true ? [] : [flag],
  ),
);

const axesThatDiffer = all.flatMap(({ axes }) =>
  axes.flatMap(({ name, differsAtEnds }) => (differsAtEnds === true ? [name as DenseAxis] : [])),
);

/**
 * Returns the rank that represents all ranks with the same memory and work as `rank`. The representative of a
 * pipeline stage is its first rank. In the first and the last stage, the last tensor-parallel rank represents
 * itself, because its shard of the vocabulary differs. Data-parallel replicas are equal.
 */
export function rankLike(mesh: ProcessMesh, rank: number): number {
  const { pp: stage, ...coordinates } = mesh.coordinatesOf(rank);
  const isAtEnd = stage === 0 || stage === mesh.sizes.pp - 1;
  const differing = axesThatDiffer.map((axis): [DenseAxis, number] => {
    const [position, last] = [(coordinates as Readonly<Record<string, number>>)[axis]!, mesh.sizes[axis] - 1];
    return [axis, isAtEnd && position === last ? last : 0];
  });
  return mesh.rankOf({ ...Object.fromEntries(differing), pp: stage });
}

/** Returns the ranks that represent all ranks (see `rankLike`), stage by stage. */
export function distinctRanks(mesh: ProcessMesh): readonly number[] {
  const likes = Array.from({ length: mesh.sizes.pp }, (_, stage) =>
    [...new Set(mesh.ranksOfStage(stage).map((rank) => rankLike(mesh, rank)))].sort((a, b) => a - b),
  );
  return likes.flat();
}

/** Returns a layout of the same sizes, with optional sharding and overlap turned off. */
export const undivided = <Parallel extends Partial<StrategyConfiguration>>(parallel: Parallel): Parallel =>
  Object.assign({}, parallel, ...all.map((each) => each.undivided)) as Parallel;

/** Returns true if the memory and work of a process depend on the routing of tokens to experts. */
export const dependsOnRouting = (parallel: StrategyConfiguration): boolean =>
  all.some((each) => each.dependsOnRouting?.(parallel as unknown as Record<string, unknown>) === true);

/** The layout settings that affect the optimizer. */
export type OptimizedLayout = Pick<
  StrategyConfiguration,
  | 'dataParallelShardingStrategy'
  | 'numDistributedOptimizerInstances'
  | 'overlapGradReduce'
  | 'overlapParamGather'
>;

/** Returns the optimizer options that follow from a run's layout. */
export function optimizerSharing(parallel: OptimizedLayout): OptimizerSharing {
  const fields = parallel as unknown as Record<string, unknown>;
  const [sharing] = all.flatMap(({ ofOptimizer }) => ofOptimizer?.(fields) ?? []);
  return sharing!;
}

/**
 * Returns how many processes one replica of the model has, and its layout as a string, such as `tensor 2 x
 * pipeline 1`.
 */
export function copyOfModel(parallel: AxisSizes): { readonly text: string; readonly size: number } {
  const axes = axesOfRun(parallel).filter(({ axis }) => isDenseAxis(axis) && flagsOfAxes.has(axis));
  return { text: formatAxes(axes), size: numAlong(axes) };
}

/**
 * Returns the layout as a string, such as `tensor 2 x pipeline 1 x data 2`. If the layout of the experts
 * differs from the rest of a layer, it is appended: `tensor 1 x pipeline 1 x data 4, experts: expert 2 x data
 * 2`. If each of several blocks of ranks has all optimizer states, the number of blocks follows: `states in 2
 * instances`.
 */
export function layoutText(parallel: AxisSizes): string {
  const dense = axesOfRun(parallel).filter(({ axis }) => isDenseAxis(axis));
  const { sizes } = meshOfRun(parallel);
  const { numDistributedOptimizerInstances: numInstances = 1 } = parallel;
  const ending = numInstances === 1 ? '' : `, states in ${numInstances} instances`;
  if (sizes.ep === 1 && sizes.etp === sizes.tp) return `${formatAxes(dense)}${ending}`;
  const copies: AxisSize = { axis: 'edp', word: axisFacts.edp.word, size: sizes.edp };
  const experts = [...axesOfRun(parallel).filter(({ axis }) => !isDenseAxis(axis)), copies];
  return `${formatAxes(dense)}, experts: ${formatAxes(experts.filter(({ size }) => size > 1))}${ending}`;
}

/** A group of processes, and the axis under which time predictions list the group's communication. */
export interface PlannedGroup {
  readonly declaration: GroupDeclaration;
  readonly countsAs: CommunicationAxis;
}

/**
 * Returns the groups that the strategies need, keyed by name. All ranks must open the groups in this order,
 * except groups of one process. `ends` has the pipeline ranks of the first and the last layers; by default,
 * these are the first and the last rank. `parallel` has the layout's other settings on which groups depend.
 */
export function groupsOfRun(
  mesh: ProcessMesh,
  {
    ends = [0, mesh.sizes.pp - 1],
    parallel = {},
  }: {
    readonly ends?: readonly [number, number] | undefined;
    readonly parallel?: Partial<AxisSizes> | undefined;
  } = {},
): Readonly<Record<string, PlannedGroup>> {
  const entries = all.flatMap(({ groups, countsAs }) =>
    Object.entries(groups({ mesh, ends, fields: parallel })).map(
      ([name, declaration]) => [name, { declaration, countsAs }] as const,
    ),
  );
  return Object.fromEntries(entries);
}
