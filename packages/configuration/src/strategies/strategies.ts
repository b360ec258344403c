import { denseAxes, type GroupDeclaration, ProcessMesh } from '@mtl/layout';
import { contextParallelism } from './context-parallelism.js';
import { dataParallelism } from './data-parallelism.js';
import { expertParallelism } from './expert-parallelism.js';
import { pipelineParallelism } from './pipeline-parallelism.js';
import type { AxisSize, FlagFragment, Strategy, StrategyCall } from './strategy.js';
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

type AnyStrategy = Strategy<FlagFragment, object>;
const all = strategies as unknown as readonly AnyStrategy[];

/** The flags of all of them. */
export const strategyFlags: Together<Known['flags']> = Object.assign({}, ...all.map(({ flags }) => flags));

const axesOf = ({ axes }: AnyStrategy, fields: object): readonly AxisSize[] =>
  axes.flatMap(({ name, word, sizeOf }) => {
    const size = sizeOf(fields);
    return size === undefined ? [] : [{ axis: name, word, size }];
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

/** Returns the axes that work is split along, in the order of `strategies`. */
function axesOfRun(parallel: AxisSizes): readonly AxisSize[] {
  return all.flatMap((each) => axesOf(each, parallel));
}

/** Returns the processes of a run. */
export function meshOfRun(parallel: AxisSizes): ProcessMesh {
  return new ProcessMesh(Object.fromEntries(axesOfRun(parallel).map(({ axis, size }) => [axis, size])));
}

/**
 * Returns `tensor 2 x pipeline 1 x data 2`; of experts that are spread in another way than the rest of a
 * layer also how: `tensor 1 x pipeline 1 x data 4, experts: expert 2 x data 2`.
 */
export function layoutText(parallel: AxisSizes): string {
  const isDense = ({ axis }: AxisSize): boolean => denseAxes.some((dense) => dense === axis);
  const text = (axes: readonly AxisSize[]): string =>
    axes.map(({ word, size }) => `${word} ${size}`).join(' x ');
  const dense = axesOfRun(parallel).filter(isDense);
  const { sizes } = meshOfRun(parallel);
  if (sizes.ep === 1 && sizes.etp === sizes.tp) return text(dense);
  const copies: AxisSize = { axis: 'edp', word: 'data', size: sizes.edp };
  const experts = [...axesOfRun(parallel).filter((axis) => !isDense(axis)), copies];
  return `${text(dense)}, experts: ${text(experts.filter(({ size }) => size > 1))}`;
}

/** A group of processes, and to which part of a step its communication counts. */
export interface PlannedGroup {
  readonly declaration: GroupDeclaration;
  readonly plannedAs: Known['plannedAs'];
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
  const entries = all.flatMap(({ groups, plannedAs }) =>
    Object.entries(groups({ mesh, ends, fields: parallel })).map(
      ([name, declaration]) => [name, { declaration, plannedAs }] as const,
    ),
  );
  return Object.fromEntries(entries);
}
