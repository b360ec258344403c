import { type GroupDeclaration, ProcessMesh } from '@mtl/comm';
import { dataParallelism } from './data-parallelism.js';
import { pipelineParallelism } from './pipeline-parallelism.js';
import type { AxisSize, FlagFragment, Strategy, StrategyCall } from './strategy.js';
import { tensorParallelism } from './tensor-parallelism.js';

/**
 * The forms of parallelism. Data parallelism is last: it gets the processes that the others leave. Everything
 * that a run, its help, its errors, a dry run and a plan know of them follows from this list.
 */
export const strategies = [tensorParallelism, pipelineParallelism, dataParallelism] as const;

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

type AnyStrategy = Strategy<FlagFragment, object>;
const all = strategies as unknown as readonly AnyStrategy[];

/** The flags of all of them. */
export const strategyFlags: Together<Known['flags']> = Object.assign({}, ...all.map(({ flags }) => flags));

const axisOf = ({ axis: { name, word, sizeOf } }: AnyStrategy, fields: object): AxisSize => ({
  axis: name,
  word,
  size: sizeOf(fields),
});

/** Configures every strategy by the flags. */
export function configureStrategies(call: Omit<StrategyCall<FlagFragment>, 'axes'>): StrategyConfiguration {
  const axes: AxisSize[] = [];
  const configured = all.map((each) => {
    const fields = each.configure({ ...call, axes });
    axes.push(axisOf(each, fields));
    return { each, fields };
  });
  const completed = configured.map(({ each, fields }) => each.complete?.(fields, { ...call, axes }));
  return Object.assign({}, ...configured.map(({ fields }) => fields), ...completed) as StrategyConfiguration;
}

/** The lengths of the axes of a run, by the names of `StrategyConfiguration`. */
export type AxisSizes = Pick<
  StrategyConfiguration,
  'tensorModelParallelSize' | 'pipelineModelParallelSize' | 'dataParallelSize'
>;

/** The axes that work is split along, in the order of `strategies`. */
export function axesOfRun(parallel: AxisSizes): readonly AxisSize[] {
  return all.map((each) => axisOf(each, parallel));
}

/** The processes of a run. */
export function meshOfRun(parallel: AxisSizes): ProcessMesh {
  return new ProcessMesh(Object.fromEntries(axesOfRun(parallel).map(({ axis, size }) => [axis, size])));
}

/** `tensor 2 x pipeline 1 x data 2` */
export function layoutText(parallel: AxisSizes): string {
  return axesOfRun(parallel)
    .map(({ word, size }) => `${word} ${size}`)
    .join(' x ');
}

/** A group of processes, and to which part of a step its communication counts. */
export interface PlannedGroup {
  readonly declaration: GroupDeclaration;
  readonly plannedAs: Known['plannedAs'];
}

/**
 * The groups that the strategies need, by name, in the order in which all ranks open those of several
 * processes. `ends`: the pipeline ranks of the first and the last layers; default the first and the last.
 */
export function groupsOfRun(
  mesh: ProcessMesh,
  { ends = [0, mesh.sizes.pp - 1] }: { readonly ends?: readonly [number, number] | undefined } = {},
): Readonly<Record<string, PlannedGroup>> {
  const entries = all.flatMap(({ groups, plannedAs }) =>
    Object.entries(groups({ mesh, ends })).map(
      ([name, declaration]) => [name, { declaration, plannedAs }] as const,
    ),
  );
  return Object.fromEntries(entries);
}
