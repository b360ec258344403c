import { type MeshAxis, type MeshView, meshViews, reductionAxes } from './mesh-axes.js';

/**
 * The placement of a parameter's values among the processes of a mesh. From it follow along which axes it is
 * replicated, and so which process counts and saves it, and along which its gradient is a sum of parts.
 */
export interface Placement {
  /** The view of the processes that its axes belong to. */
  readonly view: MeshView;
  /**
   * The dimension of which processes along an axis hold different slices. Along every other axis of the view
   * but pp they hold the same.
   */
  readonly sharded: Readonly<Partial<Record<MeshAxis, number>>>;
  /**
   * Axes over which the rows are split that it computes with: tp between the tensor-parallel regions under
   * sequence parallelism. Those of `reductionAxes` are implied.
   */
  readonly rows: readonly MeshAxis[];
  /**
   * The stages of a pipeline that hold it: one, or the first and the last, each a copy that it uses for
   * another purpose (a tied embedding).
   */
  readonly stages: 'one' | 'ends';
}

/** Returns the axes along which processes hold the same values, in the order of the view. */
function axesOfReplicas({ view, sharded, stages }: Placement): readonly MeshAxis[] {
  return meshViews[view].filter((axis) => (axis === 'pp' ? stages === 'ends' : sharded[axis] === undefined));
}

/**
 * Returns the axes along which processes hold the same values, but those over which all gradients are summed.
 */
export function axesOfCopies(placement: Placement): readonly MeshAxis[] {
  return axesOfReplicas(placement).filter((axis) => !reductionAxes[placement.view].includes(axis));
}

/** Returns the axes of copies along which each process computes a part of the gradient. */
export function axesOfPartialSums(placement: Placement): readonly MeshAxis[] {
  return axesOfCopies(placement).filter((axis) => axis === 'pp' || placement.rows.includes(axis));
}
