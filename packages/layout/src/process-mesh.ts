import { ConfigurationError, UsageError } from '@mtl/errors';
import {
  axisFacts,
  checkAxes,
  type DenseAxis,
  denseAxes,
  layerAxes,
  type MeshAxis,
  type MeshView,
  meshAxes,
  meshViews,
} from './mesh-axes.js';

/** The position of a process on every axis in all views. */
export type MeshCoordinates = Readonly<Record<MeshAxis, number>>;

const views: readonly (readonly MeshAxis[])[] = Object.values(meshViews);

/** Returns a view's axes except pp. They arrange the processes of one pipeline stage. */
const stageAxes = (view: readonly MeshAxis[]): readonly MeshAxis[] => view.filter((axis) => axis !== 'pp');

const product = (axes: readonly MeshAxis[], sizes: Readonly<Partial<Record<MeshAxis, number>>>): number =>
  axes.reduce((total, axis) => total * sizes[axis]!, 1);

/** Returns the view that contains all given axes. */
function findView(axes: readonly MeshAxis[]): readonly MeshAxis[] {
  checkAxes(axes);
  const view = views.find((each) => axes.every((axis) => each.includes(axis)));
  if (view !== undefined) return view;
  throw new UsageError('MTL_MESH', `no view of a mesh has all of the axes ${axes.join(', ')}`, {
    expected: `axes among ${views.map((each) => each.join(', ')).join(', or among ')}`,
  });
}

/** Returns the pipeline stage of the rank with these coordinates. */
export const findStage = ({ pp }: MeshCoordinates): number => pp;

/** Returns true if the first rank of a pipeline stage has these coordinates. */
export const isFirstOfStage = (coordinates: MeshCoordinates): boolean =>
  stageAxes(denseAxes).every((axis) => coordinates[axis] === 0);

/**
 * Arranges processes along the axes in `meshViews`. The mesh is an immutable value for rank arithmetic and
 * needs no running processes.
 */
export class ProcessMesh {
  readonly sizes: MeshCoordinates;
  readonly worldSize: number;

  /**
   * A missing size is 1, with two exceptions: etp defaults to tp, as in Megatron-LM, and edp to
   * `tp * cp * dp / (etp * ep)`.
   *
   * @throws ConfigurationError `MTL_MESH` if a size is not a positive integer, if an axis is unknown, or if
   *   `etp * ep * edp` is not equal to `tp * cp * dp`
   */
  constructor(sizes: Partial<MeshCoordinates> = {}) {
    checkAxes(Object.keys(sizes));
    this.sizes = Object.freeze(completedSizes(sizes));
    for (const [axis, size] of Object.entries(this.sizes)) {
      if (Number.isSafeInteger(size) && size > 0) continue;
      throw new ConfigurationError('MTL_MESH', `a mesh of ${size} along ${axis}`, {
        expected: 'a positive integer',
      });
    }
    for (const view of Object.keys(meshViews) as MeshView[]) checkView(view, this.sizes);
    this.worldSize = product(denseAxes, this.sizes);
  }

  coordinatesOf(rank: number): MeshCoordinates {
    this.#checkRank(rank);
    const coordinates: Partial<Record<MeshAxis, number>> = {};
    for (const axes of views) {
      let rest = rank;
      for (const axis of axes) {
        coordinates[axis] = rest % this.sizes[axis];
        rest = Math.floor(rest / this.sizes[axis]);
      }
    }
    return coordinates as MeshCoordinates;
  }

  /** Returns the rank with these coordinates in the dense view. A missing coordinate is 0. */
  rankOf(coordinates: Readonly<Partial<Record<DenseAxis, number>>>): number {
    let rank = 0;
    for (const axis of denseAxes.toReversed()) {
      const [position, size] = [coordinates[axis] ?? 0, this.sizes[axis]];
      if (!Number.isInteger(position) || position < 0 || position >= size) {
        throw new UsageError('MTL_MESH', `no coordinate ${position} on axis ${axis} of ${size}`);
      }
      rank = rank * size + position;
    }
    return rank;
  }

  /**
   * Returns, in ascending order, `rank` and all ranks that differ from it only along `axes`.
   *
   * @throws UsageError `MTL_MESH` if no view contains all of `axes`
   */
  groupOf(rank: number, axes: readonly MeshAxis[]): readonly number[] {
    const own = this.coordinatesOf(rank);
    let [first, stride] = [rank, 1];
    const moves: { readonly size: number; readonly stride: number }[] = [];
    for (const axis of findView(axes)) {
      const size = this.sizes[axis];
      if (axes.includes(axis)) {
        first -= own[axis] * stride;
        moves.push({ size, stride });
      }
      stride *= size;
    }
    // the longest strides outermost
    return moves.reduceRight<number[]>(
      (ranks, move) =>
        ranks.flatMap((from) => Array.from({ length: move.size }, (_, at) => from + at * move.stride)),
      [first],
    );
  }

  /**
   * Returns the ranks that together hold one copy of the view's parameters in the pipeline stage of `rank`.
   * They include `rank`.
   */
  ranksOfCopy(rank: number, view: MeshView): readonly number[] {
    return this.groupOf(rank, layerAxes[view]);
  }

  /** Returns the ranks of a pipeline stage in ascending order. */
  ranksOfStage(stage: number): readonly number[] {
    return this.groupOf(this.rankOf({ pp: stage }), stageAxes(denseAxes));
  }

  /**
   * Returns how many processes share one copy of a view's parameters: the product of the sizes over the axes
   * whose gradients are not summed.
   */
  numShards(view: MeshView): number {
    return product(
      meshViews[view].filter((axis) => !axisFacts[axis].isSummed),
      this.sizes,
    );
  }

  /** Returns all groups along `axes`, ordered by their first ranks. Every rank is in exactly one group. */
  groupsAlong(axes: readonly MeshAxis[]): readonly (readonly number[])[] {
    const groups = Array.from({ length: this.worldSize }, (_, rank) => this.groupOf(rank, axes));
    return groups.filter((group, rank) => group[0] === rank);
  }

  #checkRank(rank: number): void {
    if (Number.isInteger(rank) && rank >= 0 && rank < this.worldSize) return;
    throw new UsageError('MTL_MESH', `no rank ${rank} in a mesh of ${this.worldSize} processes`);
  }
}

/** Returns the sizes of all axes: the given sizes, and the defaults for missing sizes. */
function completedSizes(given: Partial<MeshCoordinates>): MeshCoordinates {
  const sizes: Partial<Record<MeshAxis, number>> = {};
  for (const axis of meshAxes) {
    const { like, takesRest } = axisFacts[axis];
    if (!takesRest) sizes[axis] = given[axis] ?? (like === undefined ? 1 : sizes[like]!);
  }
  const stageSize = product(stageAxes(denseAxes), sizes);
  for (const view of views) {
    const rest = view.find((axis) => axisFacts[axis].takesRest);
    if (rest === undefined) continue;
    const others = stageAxes(view).filter((axis) => axis !== rest);
    sizes[rest] = given[rest] ?? Math.max(1, Math.floor(stageSize / product(others, sizes)));
  }
  return sizes as MeshCoordinates;
}

/** Checks that the view's sizes, multiplied, give the number of processes in a stage of the dense view. */
function checkView(view: MeshView, sizes: MeshCoordinates): void {
  const [axes, dense] = [stageAxes(meshViews[view]), stageAxes(denseAxes)];
  const stageSize = product(dense, sizes);
  if (product(axes, sizes) === stageSize) return;
  const sizesAlong = (along: readonly MeshAxis[]): string => along.map((axis) => sizes[axis]).join(' x ');
  const others = axes.filter((axis) => !axisFacts[axis].takesRest);
  throw new ConfigurationError(
    'MTL_MESH',
    `${view}s over ${sizesAlong(axes)} processes (${axes.join(', ')}) of a stage of ${sizesAlong(dense)} (${dense.join(', ')})`,
    {
      expected: `${stageSize} processes`,
      remedy: `choose ${others.join(' and ')} whose product divides ${stageSize}`,
    },
  );
}
