import { type MeshAxis, type MeshView, meshViews, reductionAxes } from './mesh-axes.js';

/**
 * The placement of a parameter's values among the processes of a mesh. The placement determines the axes
 * along which the parameter is replicated, and so the process that counts and saves it, and the axes along
 * which its gradient is a sum of parts.
 */
export interface Placement {
  /** The view of the processes that the axes of this placement belong to. */
  readonly view: MeshView;
  /**
   * The sharded dimension for each axis: processes along the axis hold different slices of it. Along every
   * other axis of the view except pp they hold the same values.
   */
  readonly sharded: Readonly<Partial<Record<MeshAxis, number>>>;
  /**
   * Axes over which the rows of activations that the parameter is used with are split, such as tp between the
   * tensor-parallel regions under sequence parallelism. The axes of `reductionAxes` are implied.
   */
  readonly rows: readonly MeshAxis[];
  /**
   * The pipeline stages that hold the parameter: one, or the first and the last, each with a copy for another
   * purpose (a tied embedding).
   */
  readonly stages: 'one' | 'ends';
}

/** Returns the axes along which processes hold the same values, in the order of the view. */
function axesOfReplicas({ view, sharded, stages }: Placement): readonly MeshAxis[] {
  return meshViews[view].filter((axis) => (axis === 'pp' ? stages === 'ends' : sharded[axis] === undefined));
}

/**
 * Returns the axes along which processes hold the same values, except the axes over which all gradients are
 * summed.
 */
export function axesOfCopies(placement: Placement): readonly MeshAxis[] {
  return axesOfReplicas(placement).filter((axis) => !reductionAxes[placement.view].includes(axis));
}

/** Returns the axes of copies along which each process computes a part of the gradient. */
export function axesOfPartialSums(placement: Placement): readonly MeshAxis[] {
  return axesOfCopies(placement).filter((axis) => axis === 'pp' || placement.rows.includes(axis));
}
