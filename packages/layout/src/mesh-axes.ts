import { ConfigurationError } from '@mtl/errors';

/**
 * The views of a run's processes: two ways to arrange the same processes along axes. Each view lists its axes
 * in rank order, so neighbouring ranks differ along the first axis.
 * - `dense`, for all weights except expert weights: tensor (tp), context (cp), data (dp) and pipeline (pp)
 *   parallelism (see Narayanan et al. 2021, section 3.1)
 * - `expert`, for expert weights: tensor parallelism within an expert (etp), different experts (ep), copies
 *   of the same experts (edp), and the pipeline stages of the dense view (pp)
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

/** Returns true if `axis` belongs to the dense view. */
export const isDenseAxis = (axis: MeshAxis): axis is DenseAxis => denseAxes.some((dense) => dense === axis);

/** The axes of all views, without duplicates. */
export const meshAxes: readonly MeshAxis[] = [...new Set<MeshAxis>(Object.values(meshViews).flat())];

/** The properties of an axis, including how its default size follows from the sizes of the other axes. */
export interface AxisFacts {
  /** The word for the axis in messages and names, for example `tensor`. */
  readonly word: string;
  /**
   * True if every process along the axis computes with different rows. The gradients of all parameters in the
   * view are then summed over the axis.
   */
  readonly isSummed?: boolean;
  /** The axis of the dense view whose size is the default. If it is undefined, the default is 1. */
  readonly like?: DenseAxis;
  /**
   * True if the default size is the number of processes in a stage divided by the sizes of the view's other
   * axes.
   */
  readonly takesRest?: boolean;
  /** The axis to which statistics add the communication along this axis. Undefined means this axis itself. */
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

/** The properties of every axis. */
export const axisFacts: Readonly<Record<MeshAxis, AxisFacts>> = facts;

/** An axis to which communication is attributed. */
export type CommunicationAxis = {
  [Axis in MeshAxis]: (typeof facts)[Axis] extends { readonly countsWith: MeshAxis } ? never : Axis;
}[MeshAxis];

/** The axes to which communication is attributed. */
export const communicationAxes = meshAxes.filter(
  (axis) => axisFacts[axis].countsWith === undefined,
) as readonly CommunicationAxis[];

/** The name for the part of a step that consists of communication along one axis. */
export type CommunicationPart = `${(typeof facts)[CommunicationAxis]['word']}Communication`;

/** Returns the name for the part of a step that consists of communication along this axis. */
export const communicationPart = (axis: CommunicationAxis): CommunicationPart =>
  `${facts[axis].word}Communication`;

/**
 * Returns an object with one value for each communication part of a step. `of` returns the value for an axis.
 */
export const communicationParts = <Value>(
  of: (axis: CommunicationAxis) => Value,
): Record<CommunicationPart, Value> =>
  Object.fromEntries(communicationAxes.map((axis) => [communicationPart(axis), of(axis)])) as Record<
    CommunicationPart,
    Value
  >;

/** For each view, the axes over which the gradients of all parameters are summed, in rank order. */
export const reductionAxes = Object.fromEntries(
  Object.entries(meshViews).map(([view, axes]) => [view, axes.filter((axis) => axisFacts[axis].isSummed)]),
) as unknown as Readonly<Record<MeshView, readonly MeshAxis[]>>;

/** For each view, the axes that divide the view's parameters within a pipeline stage. */
export const layerAxes = Object.fromEntries(
  Object.entries(meshViews).map(([view, axes]) => [
    view,
    axes.filter((axis) => axis !== 'pp' && !axisFacts[axis].isSummed),
  ]),
) as unknown as Readonly<Record<MeshView, readonly MeshAxis[]>>;

/** For each view, the axis along which processes hold copies of the view's parameters. */
export const copyAxes = { dense: 'dp', expert: 'edp' } as const satisfies Readonly<
  Record<MeshView, MeshAxis>
>;

/**
 * The axis along which processes take different samples of a batch. Along the other axes of the dense view,
 * they take the same samples.
 */
export const batchAxis: DenseAxis = 'dp';

/** @throws ConfigurationError `MTL_MESH` if a name is not an axis */
export function checkAxes(axes: readonly string[]): void {
  const known: readonly string[] = meshAxes;
  const unknown = axes.find((axis) => !known.includes(axis));
  if (unknown === undefined) return;
  throw new ConfigurationError('MTL_MESH', `a mesh has no axis ${unknown}`, {
    expected: known.join(', '),
  });
}
