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
import type { FlagFragment } from '../flags/flag-values.js';
import { contextParallelism } from './context-parallelism.js';
import { dataParallelism } from './data-parallelism.js';
import { expertParallelism } from './expert-parallelism.js';
import { pipelineParallelism } from './pipeline-parallelism.js';
import {
  type AxisSize,
  costsOfSaving,
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
 * The forms of parallelism. Data parallelism gets the processes that the strategies before it leave. Experts
 * are sharded over the processes of a stage, independently of the rest of a layer. This list determines the
 * strategies of a run, its help, its errors, a dry run and a plan.
 */
export const strategies = [
  tensorParallelism,
  contextParallelism,
  pipelineParallelism,
  dataParallelism,
  expertParallelism,
] as const;

type Known = (typeof strategies)[number];
type Together<Union> = (Union extends unknown ? (each: Union) => void : never) extends (
  all: infer All,
) => void
  ? All
  : never;

/** The part of a run's configuration that the strategies make. */
export type StrategyConfiguration = Together<
  ReturnType<Known['configure']> | ReturnType<NonNullable<Known['complete']>>
>;

type AnyStrategy = Strategy<FlagFragment, Record<string, unknown>>;
type Sizes = Readonly<Partial<Record<string, number>>>;
const all = strategies as unknown as readonly AnyStrategy[];

/** The flags of all strategies. */
export const strategyFlags: Together<Known['flags']> = Object.assign({}, ...all.map(({ flags }) => flags));

/**
 * Flags of strategies that set the same thing as other flags: a flag from a stronger source overrides the
 * others.
 */
export const displacedByStrategies: Readonly<Record<string, readonly string[]>> = Object.assign(
  {},
  ...all.map(({ displaces }) => displaces),
);

/** Values of flags that also turn on a switch of a strategy. */
export const impliedSwitches: readonly ImpliedSwitch[] = all.flatMap(({ impliedBy }) => impliedBy ?? []);

/** Returns the help text for the values of a flag that imply a switch of a strategy. */
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

/** Configures every strategy from the flags. */
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

/** The lengths of the axes of a run, by the names of `StrategyConfiguration`. */
export type AxisSizes = Pick<
  StrategyConfiguration,
  | 'tensorModelParallelSize'
  | 'contextParallelSize'
  | 'hierarchicalContextParallelSizes'
  | 'pipelineModelParallelSize'
  | 'dataParallelSize'
  | 'expertModelParallelSize'
  | 'expertTensorParallelSize'
>;

/** The strategy flags of models with task heads: BERTs without experts, which read complete sequences. */
export const strategyFlagsOfTasks: Together<
  (typeof tensorParallelism | typeof pipelineParallelism | typeof dataParallelism)['flags']
> = Object.assign({}, tensorParallelism.flags, pipelineParallelism.flags, dataParallelism.flags);

/** Other names of flags of strategies in Megatron-LM. */
export const aliasesOfStrategies: Readonly<Record<string, { readonly flag: keyof typeof strategyFlags }>> =
  Object.assign({}, ...all.map(({ aliases }) => aliases));

/** The flags of the strategies that only one kind of model has. */
export const strategyFlagsOfKind = (kind: NonNullable<AnyStrategy['kind']>): readonly string[] =>
  all.flatMap((each) => (each.kind === kind ? Object.keys(each.flags) : []));

/** The flags that set the size of an axis along which passes communicate on the device. */
export const flagsOfPassCommunication: readonly string[] = all.flatMap(({ communicatesInPasses, axes }) =>
  communicatesInPasses === true ? axes.flatMap(({ flag }) => flag ?? []) : [],
);

/** The help of the flags that set how processes share a trained model. */
export const sharingHelp: Readonly<Record<string, string>> = Object.assign(
  {},
  ...all.map(({ sharing }) => sharing?.help),
);

/**
 * Returns the layout in which processes share a trained model, for values of the flags of `sharingHelp`.
 *
 * @throws ConfigurationError for sizes that do not fit each other
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
 * Rejects layouts in which texts cannot be continued.
 *
 * @throws ConfigurationError of the strategy that cannot continue texts
 */
export function checkGeneration(values: Readonly<Record<string, number | undefined>>): void {
  for (const { sharing } of all) sharing?.checkGeneration?.(values);
}

/**
 * Rejects layouts that a trained model cannot have.
 *
 * @throws ConfigurationError of the strategy that cannot share the model
 */
export function checkSharedModel(
  model: { readonly numExperts?: number | undefined },
  shared: SharedModel,
): void {
  for (const { sharing } of all) sharing?.checkModel?.(model, shared);
}

/** Returns the options of a model's stages that describe how processes share it; `parallel`: in a run. */
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

/** The flags that set the sizes of axes, by axis. */
const flagsOfAxes: ReadonlyMap<MeshAxis, string> = new Map(
  all.flatMap(({ axes }) => axes.flatMap(({ name, flag }) => (flag === undefined ? [] : [[name, flag]]))),
);

/** Returns the fewest processes that the sizes of flags describe: one copy of a model, and of its experts. */
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

/** The sizes of a run by the keys of its records. */
export interface RecordedSizes {
  readonly tensor: number;
  readonly context?: number;
  readonly pipeline: number;
  readonly data: number;
  readonly expert?: number;
  readonly expertTensor?: number;
}

/** The key of each size in the records of runs, and the size's field in a configuration. */
const recordKeys = all.flatMap(({ axes }) =>
  axes.map(({ name, field, recordedAs = axisFacts[name].word }) => [recordedAs, field] as const),
);

/** Returns values under other keys, without absent values. */
const renamed = (values: Sizes, keys: readonly (readonly [to: string, from: string])[]): object =>
  Object.fromEntries(keys.flatMap(([to, from]) => (values[from] === undefined ? [] : [[to, values[from]]])));

/** Returns the sizes of a run, under the keys of the records of runs. */
export const recordedSizes = (parallel: AxisSizes): RecordedSizes =>
  renamed(parallel as unknown as Sizes, recordKeys) as RecordedSizes;

/** Returns the layout for recorded sizes. */
export const layoutOfRecord = (sizes: RecordedSizes): AxisSizes =>
  renamed(
    sizes as unknown as Sizes,
    recordKeys.map(([key, field]) => [field, key]),
  ) as AxisSizes;

/** An axis whose sizes a layout search tries. */
export interface SearchedAxis {
  readonly axis: MeshAxis;
  /** The axis's key in `RecordedSizes`. */
  readonly key: keyof RecordedSizes;
  /** The flag of the axis's size; undefined for the axis that gets the remaining processes. */
  readonly flag: string | undefined;
  readonly search: (run: SearchedRun) => SearchedSizes | undefined;
}

/** The axes whose sizes a search tries, in the order of `strategies` for dense layers and for experts. */
export const searchedAxes: readonly SearchedAxis[] = all.flatMap(({ axes }) =>
  axes.flatMap(({ name, flag, recordedAs = axisFacts[name].word, search }) =>
    search === undefined ? [] : [{ axis: name, key: recordedAs as keyof RecordedSizes, flag, search }],
  ),
);

/** Returns a layout without the sizes of experts, which only other views of the mesh use. */
export const withoutExperts = <Parallel extends AxisSizes>(parallel: Parallel): Parallel => {
  const fields = all.flatMap(({ axes }) =>
    axes.flatMap(({ name, field }) => (isDenseAxis(name) ? [] : [field])),
  );
  return Object.fromEntries(Object.entries(parallel).filter(([key]) => !fields.includes(key))) as Parallel;
};

/** Returns the axes that work is split along, in the order of `strategies`. */
function axesOfRun(parallel: AxisSizes): readonly AxisSize[] {
  return all.flatMap((each) => listAxes(each, parallel));
}

/** Returns the mesh of a run's processes. */
export function meshOfRun(parallel: AxisSizes): ProcessMesh {
  return new ProcessMesh(Object.fromEntries(axesOfRun(parallel).map(({ axis, size }) => [axis, size])));
}

/** Returns the number of equal shares of every batch; each share is computed by separate processes. */
export function numSharesOfBatch(parallel: AxisSizes): number {
  return shareOfBatch(meshOfRun(parallel), 0).count;
}

/** The searched settings of layouts other than sizes, by their keys. */
export type SearchedSettings = Pick<
  StrategyConfiguration,
  'sequenceParallel' | 'dataParallelShardingStrategy'
>;

/** The settings that a layout search tries in addition to sizes, in the order of `strategies`. */
export const searchedSettings: readonly (SearchedSetting & { readonly key: keyof SearchedSettings })[] =
  all.flatMap(({ settings = [] }) => settings as []);

/** A change to a run, as values of flags. */
export interface FlagChange {
  readonly values: Readonly<Record<string, unknown>>;
  readonly costs: MemorySaving<object>['costs'];
}

/** Returns the changes of a layout that may reduce the memory of its processes. */
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

/** The switches that reduce the memory of processes; the switch that costs the least time comes first. */
export const switchesThatSave: readonly string[] = all
  .flatMap(({ savings = [] }) => savings)
  .filter(({ flag }) => flagFacts.get(strategyFlags[flag as keyof typeof strategyFlags])?.kind === 'boolean')
  .sort((a, b) => costsOfSaving.indexOf(a.costs) - costsOfSaving.indexOf(b.costs))
  .map(({ flag }) => flag);

/** The flags that make more processes share a model, without the flags that split positions of sequences. */
export const flagsThatDivideModel: readonly string[] = all.flatMap(({ axes }) =>
  axes.flatMap(({ name, flag }) =>
    flag === undefined || !isDenseAxis(name) || axisFacts[name].isSummed === true ? [] : [flag],
  ),
);

const axesThatDiffer = all.flatMap(({ axes }) =>
  axes.flatMap(({ name, differsAtEnds }) => (differsAtEnds === true ? [name as DenseAxis] : [])),
);

/**
 * Returns the representative rank with the same resource use as `rank`. Every pipeline stage has its first
 * rank as representative. The first and the last stage also have the last rank along tensor parallelism,
 * since they shard the vocabulary. Replicas are equal.
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

/** Returns the representative ranks, stage by stage. */
export function distinctRanks(mesh: ProcessMesh): readonly number[] {
  const likes = Array.from({ length: mesh.sizes.pp }, (_, stage) =>
    [...new Set(mesh.ranksOfStage(stage).map((rank) => rankLike(mesh, rank)))].sort((a, b) => a - b),
  );
  return likes.flat();
}

/** Returns a layout with optional sharding and overlap turned off; its sizes stay the same. */
export const undivided = <Parallel extends Partial<StrategyConfiguration>>(parallel: Parallel): Parallel =>
  Object.assign({}, parallel, ...all.map((each) => each.undivided)) as Parallel;

/** Returns whether the resource use of a layout's process depends on the routing of tokens. */
export const dependsOnRouting = (parallel: StrategyConfiguration): boolean =>
  all.some((each) => each.dependsOnRouting?.(parallel as unknown as Record<string, unknown>) === true);

/** The part of a layout that an optimizer depends on. */
export type OptimizedLayout = Pick<
  StrategyConfiguration,
  'dataParallelShardingStrategy' | 'overlapGradReduce' | 'overlapParamGather'
>;

/** Returns the optimizer options that follow from the layout of a run. */
export function optimizerSharing(parallel: OptimizedLayout): OptimizerSharing {
  const fields = parallel as unknown as Record<string, unknown>;
  const [sharing] = all.flatMap(({ ofOptimizer }) => ofOptimizer?.(fields) ?? []);
  return sharing!;
}

const formatAxes = (axes: readonly AxisSize[]): string =>
  axes.map(({ word, size }) => `${word} ${size}`).join(' x ');

/**
 * Returns the layout of one replica of a model as text, `tensor 2 x pipeline 1`, and the number of processes
 * that share the replica.
 */
export function copyOfModel(parallel: AxisSizes): { readonly text: string; readonly size: number } {
  const axes = axesOfRun(parallel).filter(({ axis }) => isDenseAxis(axis) && flagsOfAxes.has(axis));
  return { text: formatAxes(axes), size: numAlong(axes) };
}

/**
 * Returns the layout as text, `tensor 2 x pipeline 1 x data 2`. If experts are sharded differently from the
 * rest of a layer, the text also has their layout: `tensor 1 x pipeline 1 x data 4, experts: expert 2 x data
 * 2`.
 */
export function layoutText(parallel: AxisSizes): string {
  const dense = axesOfRun(parallel).filter(({ axis }) => isDenseAxis(axis));
  const { sizes } = meshOfRun(parallel);
  if (sizes.ep === 1 && sizes.etp === sizes.tp) return formatAxes(dense);
  const copies: AxisSize = { axis: 'edp', word: axisFacts.edp.word, size: sizes.edp };
  const experts = [...axesOfRun(parallel).filter(({ axis }) => !isDenseAxis(axis)), copies];
  return `${formatAxes(dense)}, experts: ${formatAxes(experts.filter(({ size }) => size > 1))}`;
}

/** A group of processes, and the axis under which predictions of time count its communication. */
export interface PlannedGroup {
  readonly declaration: GroupDeclaration;
  readonly countsAs: CommunicationAxis;
}

/**
 * Returns the groups that the strategies need, by name, in the order in which all ranks open groups of
 * several processes. `ends`: the pipeline ranks of the first and the last layers; default the first and the
 * last. `parallel`: layout fields other than the mesh that groups depend on.
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
