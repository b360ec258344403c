import { ConfigurationError } from '@mtl/errors';

/**
 * The views of the processes of a run, each with its axes in rank order: neighbouring ranks differ along the
 * first one. `dense`: the view of all weights except expert weights, tensor parallelism (tp) first, then
 * context (cp), data (dp) and pipeline (pp) parallelism (Narayanan et al. 2021, 3.1). `expert`: the experts'
 * view of the same processes, tensor parallelism within an expert (etp), different experts (ep), copies of
 * the same experts (edp), and the stages of the dense view (pp).
 */
export const meshViews = {
  dense: ['tp', 'cp', 'dp', 'pp'],
  expert: ['etp', 'ep', 'edp', 'pp'],
} as const;

export type MeshView = keyof typeof meshViews;
export type DenseAxis = (typeof meshViews)['dense'][number];
export type ExpertAxis = (typeof meshViews)['expert'][number];
export type MeshAxis = (typeof meshViews)[MeshView][number];

/** The axes of the dense view. */
export const denseAxes = meshViews.dense;

/** Tells whether an axis belongs to the dense view. */
export const isDenseAxis = (axis: MeshAxis): axis is DenseAxis => denseAxes.some((dense) => dense === axis);

/** The axes of all views, each once. */
export const meshAxes: readonly MeshAxis[] = [...new Set<MeshAxis>(Object.values(meshViews).flat())];

/** An axis, and how its size follows from the sizes of other axes. */
export interface AxisFacts {
  /** The name of the axis in texts: `tensor`. */
  readonly word: string;
  /**
   * True where every process along the axis computes with its own rows, so that the gradients of all
   * parameters of the view are summed over it.
   */
  readonly isSummed?: boolean;
  /** The axis of the dense view whose size is the default. Absent: the default is 1. */
  readonly like?: DenseAxis;
  /**
   * True if the default size is the number of processes of a stage divided by the sizes of the other axes of
   * the view.
   */
  readonly takesRest?: boolean;
  /** The axis under which communication along this axis is counted. Absent: this axis. */
  readonly countsWith?: MeshAxis;
}

const facts = {
  tp: { word: 'tensor' },
  cp: { word: 'context', isSummed: true },
  dp: { word: 'data', isSummed: true },
  pp: { word: 'pipeline' },
  etp: { word: 'tensor', like: 'tp', countsWith: 'ep' },
  ep: { word: 'expert' },
  edp: { word: 'data', isSummed: true, takesRest: true, countsWith: 'dp' },
} as const satisfies Readonly<Record<MeshAxis, AxisFacts>>;

/** The facts of every axis. */
export const axisFacts: Readonly<Record<MeshAxis, AxisFacts>> = facts;

/** An axis that communication is counted by. */
export type CommunicationAxis = {
  [Axis in MeshAxis]: (typeof facts)[Axis] extends { readonly countsWith: MeshAxis } ? never : Axis;
}[MeshAxis];

/** The axes that communication is counted by. */
export const communicationAxes = meshAxes.filter(
  (axis) => axisFacts[axis].countsWith === undefined,
) as readonly CommunicationAxis[];

/** The name of a part of a step: the communication along an axis. */
export type CommunicationPart = `${(typeof facts)[CommunicationAxis]['word']}Communication`;

/** Returns the name of the part of a step for communication along an axis. */
export const communicationPart = (axis: CommunicationAxis): CommunicationPart =>
  `${facts[axis].word}Communication`;

/** Returns a value for each part that is communication. */
export const communicationParts = <Value>(
  of: (axis: CommunicationAxis) => Value,
): Record<CommunicationPart, Value> =>
  Object.fromEntries(communicationAxes.map((axis) => [communicationPart(axis), of(axis)])) as Record<
    CommunicationPart,
    Value
  >;

/** The axes of every view over which the gradients of all its parameters are summed, in rank order. */
export const reductionAxes = Object.fromEntries(
  Object.entries(meshViews).map(([view, axes]) => [view, axes.filter((axis) => axisFacts[axis].isSummed)]),
) as unknown as Readonly<Record<MeshView, readonly MeshAxis[]>>;

/**
 * The axes of every view along which processes of a pipeline stage hold different parts of its parameters.
 */
export const layerAxes = Object.fromEntries(
  Object.entries(meshViews).map(([view, axes]) => [
    view,
    axes.filter((axis) => axis !== 'pp' && !axisFacts[axis].isSummed),
  ]),
) as unknown as Readonly<Record<MeshView, readonly MeshAxis[]>>;

/** The axis of every view along which processes have copies of the parameters of the view. */
export const copyAxes = { dense: 'dp', expert: 'edp' } as const satisfies Readonly<
  Record<MeshView, MeshAxis>
>;

/**
 * The axis along which processes take different samples of a batch; along other axes they take the same
 * samples.
 */
export const batchAxis: DenseAxis = 'dp';

/** @throws ConfigurationError `MTL_MESH` for a name that is no axis */
export function checkAxes(axes: readonly string[]): void {
  const known: readonly string[] = meshAxes;
  const unknown = axes.find((axis) => !known.includes(axis));
  if (unknown === undefined) return;
  throw new ConfigurationError('MTL_MESH', `a mesh has no axis ${unknown}`, {
    expected: known.join(', '),
  });
}
