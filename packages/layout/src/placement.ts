import { type MeshAxis, type MeshView, meshViews, reductionAxes } from './mesh-axes.js';

/**
 * How a parameter's values are placed on a mesh's processes. The placement determines the axes along which
 * the parameter is replicated (and thus the process that counts and saves it), and the axes along which its
 * gradient is a partial sum.
 */
export interface Placement {
  /** The view whose axes this placement uses. */
  readonly view: MeshView;
  /**
   * For each axis that shards the parameter, the index of the sharded tensor dimension. Processes along such
   * an axis have different slices. Along the view's other axes except pp, processes have the same values.
   */
  readonly sharded: Readonly<Partial<Record<MeshAxis, number>>>;
  /**
   * The axes over which the rows are split in the activations used with this parameter. Example: tp under
   * sequence parallelism, for parameters between the tensor-parallel regions. `reductionAxes` need not be
   * listed: they always split rows.
   */
  readonly rows: readonly MeshAxis[];
  /**
   * The pipeline stages that hold the parameter. `one`: a single stage. `ends`: the first and the last stage,
   * which use their copies for different purposes, as in a tied embedding.
   */
  readonly stages: 'one' | 'ends';
}

/** Returns the axes along which processes hold the same values, in the order of the view. */
function axesOfReplicas({ view, sharded, stages }: Placement): readonly MeshAxis[] {
  return meshViews[view].filter((axis) => (axis === 'pp' ? stages === 'ends' : sharded[axis] === undefined));
}

/**
 * Returns the axes along which processes hold the same values, except the axes over which the view sums all
 * gradients.
 */
export function axesOfCopies(placement: Placement): readonly MeshAxis[] {
  return axesOfReplicas(placement).filter((axis) => !reductionAxes[placement.view].includes(axis));
}

/** Returns the axes in `axesOfCopies` along which each process computes only a part of the gradient. */
export function axesOfPartialSums(placement: Placement): readonly MeshAxis[] {
  return axesOfCopies(placement).filter((axis) => axis === 'pp' || placement.rows.includes(axis));
}
