import { type MeshAxis, type MeshView, meshViews, reductionAxes } from './mesh-axes.js';

/**
 * The placement of a parameter's values on the processes of a mesh. It determines the axes along which the
 * parameter is replicated (and thus the process that counts and saves it), and the axes along which its
 * gradient is a partial sum.
 */
export interface Placement {
  /** The view whose axes this placement uses. */
  readonly view: MeshView;
  /**
   * For each axis, the tensor dimension that is sharded over it. Processes along the axis have different
   * slices. Along every other axis of the view except pp, processes have the same values.
   */
  readonly sharded: Readonly<Partial<Record<MeshAxis, number>>>;
  /**
   * The axes over which the rows of the activations used with this parameter are split. Example: tp under
   * sequence parallelism, for parameters between the tensor-parallel regions. `reductionAxes` are always
   * included.
   */
  readonly rows: readonly MeshAxis[];
  /**
   * The pipeline stages that hold the parameter: one stage; or the first and the last stage, each with a copy
   * for a different purpose (a tied embedding).
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

/** Returns those axes of copies along which each process computes only a part of the gradient. */
export function axesOfPartialSums(placement: Placement): readonly MeshAxis[] {
  return axesOfCopies(placement).filter((axis) => axis === 'pp' || placement.rows.includes(axis));
}
