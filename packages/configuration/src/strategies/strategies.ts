import {
  axisFacts,
  type CommunicationAxis,
  type GroupDeclaration,
  isDenseAxis,
  type MeshAxis,
  meshViews,
  ProcessMesh,
} from '@mtl/layout';
import { contextParallelism } from './context-parallelism.js';
import { dataParallelism } from './data-parallelism.js';
import { expertParallelism } from './expert-parallelism.js';
import { pipelineParallelism } from './pipeline-parallelism.js';
import {
  type AxisSize,
  type FlagFragment,
  greatestCommonDivisor,
  type ModelSharing,
  type ModelSharingOptions,
  numAlong,
  type SearchedRun,
  type SearchedSizes,
  type Strategy,
  type StrategyCall,
} from './strategy.js';
import { tensorParallelism } from './tensor-parallelism.js';

/**
 * The forms of parallelism. Data parallelism gets the processes that those before it leave; experts are
 * spread over the processes of a stage, whatever these do with the rest of a layer. Everything that a run,
 * its help, its errors, a dry run and a plan know of them follows from this list.
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

/** The flags of all of them. */
export const strategyFlags: Together<Known['flags']> = Object.assign({}, ...all.map(({ flags }) => flags));

const axesOf = ({ axes }: AnyStrategy, fields: object): readonly AxisSize[] =>
  axes.flatMap(({ name, field }) => {
    const size = (fields as Sizes)[field];
    return size === undefined ? [] : [{ axis: name, word: axisFacts[name].word, size }];
  });

/** Configures every strategy by the flags. */
export function configureStrategies(call: Omit<StrategyCall<FlagFragment>, 'axes'>): StrategyConfiguration {
  const axes: AxisSize[] = [];
  const configured = all.map((each) => {
    const fields = each.configure({ ...call, axes });
    axes.push(...axesOf(each, fields));
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

/** The flags of the strategies that are for one kind of models. */
export const strategyFlagsOfKind = (kind: NonNullable<AnyStrategy['kind']>): readonly string[] =>
  all.flatMap((each) => (each.kind === kind ? Object.keys(each.flags) : []));

/** The flags that size an axis along which passes communicate on the device. */
export const flagsOfPassCommunication: readonly string[] = all.flatMap(({ communicatesInPasses, axes }) =>
  communicatesInPasses === true ? axes.flatMap(({ flag }) => flag ?? []) : [],
);

/** The help of the flags by which processes share a trained model. */
export const sharingHelp: Readonly<Record<string, string>> = Object.assign(
  {},
  ...all.map(({ sharing }) => sharing?.help),
);

/**
 * Returns how processes share a trained model by the values of the flags of `sharingHelp`.
 *
 * @throws ConfigurationError for sizes that do not fit each other
 */
export function sharedLayout(values: Readonly<Record<string, number | undefined>>): AxisSizes {
  const axes: AxisSize[] = [];
  const fields = all.map((each) => {
    const own = each.sharing?.configure(values, axes) ?? {};
    axes.push(...axesOf(each, own));
    return own;
  });
  return Object.assign({}, ...fields) as AxisSizes;
}

/**
 * Refuses layouts in which texts cannot be continued.
 *
 * @throws ConfigurationError by the strategy that cannot
 */
export function checkGeneration(values: Readonly<Record<string, number | undefined>>): void {
  for (const { sharing } of all) sharing?.checkGeneration?.(values);
}

/** Returns the options of the stages of a model that say how processes share it; `parallel`: in a run. */
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

/** The flags that size axes, by axis. */
const flagsOfAxes: ReadonlyMap<MeshAxis, string> = new Map(
  all.flatMap(({ axes }) => axes.flatMap(({ name, flag }) => (flag === undefined ? [] : [[name, flag]]))),
);

/** Returns the fewest processes that the sizes of flags describe: one copy of a model, and of its experts. */
export function leastProcesses(flags: Readonly<Record<string, unknown>>): number {
  const sizeOf = (axis: MeshAxis): number => {
    const { like } = axisFacts[axis];
    const given = flags[flagsOfAxes.get(axis) ?? ''];
    return typeof given === 'number' ? given : like === undefined ? 1 : sizeOf(like);
  };
  const ofViews = Object.values(meshViews).map((view) =>
    view.reduce((product, axis) => (axis === 'pp' ? product : product * sizeOf(axis)), 1),
  );
  return ofViews.reduce((a, b) => (a / greatestCommonDivisor(a, b)) * b) * sizeOf('pp');
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

/** The key of each size in the records of runs, and its field in a configuration. */
const recordKeys = all.flatMap(({ axes }) =>
  axes.map(({ name, field, recordedAs = axisFacts[name].word }) => [recordedAs, field] as const),
);

/** Returns values under other keys, without those that are absent. */
const renamed = (values: Sizes, keys: readonly (readonly [to: string, from: string])[]): object =>
  Object.fromEntries(keys.flatMap(([to, from]) => (values[from] === undefined ? [] : [[to, values[from]]])));

/** Returns the sizes of a run as records have them. */
export const recordedSizes = (parallel: AxisSizes): RecordedSizes =>
  renamed(parallel as unknown as Sizes, recordKeys) as RecordedSizes;

/** Returns the layout whose sizes are recorded so. */
export const layoutOfRecord = (sizes: RecordedSizes): AxisSizes =>
  renamed(
    sizes as unknown as Sizes,
    recordKeys.map(([key, field]) => [field, key]),
  ) as AxisSizes;

/** An axis whose sizes a search of layouts tries. */
export interface SearchedAxis {
  readonly axis: MeshAxis;
  /** Its key in `RecordedSizes`. */
  readonly key: keyof RecordedSizes;
  /** Its flag; undefined for the axis that takes what the others leave. */
  readonly flag: string | undefined;
  readonly search: (run: SearchedRun) => SearchedSizes | undefined;
}

/** The axes whose sizes a search tries: of each view in the order of `strategies`. */
export const searchedAxes: readonly SearchedAxis[] = all.flatMap(({ axes }) =>
  axes.flatMap(({ name, flag, recordedAs = axisFacts[name].word, search }) =>
    search === undefined ? [] : [{ axis: name, key: recordedAs as keyof RecordedSizes, flag, search }],
  ),
);

/** Returns a layout without the sizes of experts, which other views of the mesh have. */
export const withoutExperts = <Parallel extends AxisSizes>(parallel: Parallel): Parallel => {
  const fields = all.flatMap(({ axes }) =>
    axes.flatMap(({ name, field }) => (isDenseAxis(name) ? [] : [field])),
  );
  return Object.fromEntries(Object.entries(parallel).filter(([key]) => !fields.includes(key))) as Parallel;
};

/** Returns the axes that work is split along, in the order of `strategies`. */
function axesOfRun(parallel: AxisSizes): readonly AxisSize[] {
  return all.flatMap((each) => axesOf(each, parallel));
}

/** Returns the processes of a run. */
export function meshOfRun(parallel: AxisSizes): ProcessMesh {
  return new ProcessMesh(Object.fromEntries(axesOfRun(parallel).map(({ axis, size }) => [axis, size])));
}

const textOf = (axes: readonly AxisSize[]): string =>
  axes.map(({ word, size }) => `${word} ${size}`).join(' x ');

/** Returns `tensor 2 x pipeline 1`, and the number of processes: those that share one copy of a model. */
export function copyOfModel(parallel: AxisSizes): { readonly text: string; readonly size: number } {
  const axes = axesOfRun(parallel).filter(({ axis }) => isDenseAxis(axis) && flagsOfAxes.has(axis));
  return { text: textOf(axes), size: numAlong(axes) };
}

/**
 * Returns `tensor 2 x pipeline 1 x data 2`; of experts that are spread in another way than the rest of a
 * layer also how: `tensor 1 x pipeline 1 x data 4, experts: expert 2 x data 2`.
 */
export function layoutText(parallel: AxisSizes): string {
  const dense = axesOfRun(parallel).filter(({ axis }) => isDenseAxis(axis));
  const { sizes } = meshOfRun(parallel);
  if (sizes.ep === 1 && sizes.etp === sizes.tp) return textOf(dense);
  const copies: AxisSize = { axis: 'edp', word: axisFacts.edp.word, size: sizes.edp };
  const experts = [...axesOfRun(parallel).filter(({ axis }) => !isDenseAxis(axis)), copies];
  return `${textOf(dense)}, experts: ${textOf(experts.filter(({ size }) => size > 1))}`;
}

/** A group of processes, and where its communication is counted. */
export interface PlannedGroup {
  readonly declaration: GroupDeclaration;
  readonly countsAs: CommunicationAxis;
}

/**
 * Returns the groups that the strategies need, by name, in the order in which all ranks open those of several
 * processes. `ends`: the pipeline ranks of the first and the last layers; default the first and the last.
 * `parallel`: what groups depend on but for the mesh.
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
