import { ConfigurationError, UsageError } from '@mtl/errors';

/**
 * The axes of the mesh as all weights but those of experts see it, in rank order: neighbouring ranks differ
 * in tensor parallelism (tp) first, then in context (cp), data (dp) and pipeline (pp) parallelism (Narayanan
 * et al. 2021, 3.1).
 */
export const denseAxes = ['tp', 'cp', 'dp', 'pp'] as const;

/**
 * The axes of the same processes as experts see them, in rank order: tensor parallelism within an expert
 * (etp), different experts (ep), copies of the same experts (edp), and the stages of the dense view (pp).
 */
const expertAxes = ['etp', 'ep', 'edp', 'pp'] as const;

export type DenseAxis = (typeof denseAxes)[number];
export type ExpertAxis = (typeof expertAxes)[number];
export type MeshAxis = DenseAxis | ExpertAxis;

/** The views of the processes by their names. */
export const meshViews = { dense: denseAxes, expert: expertAxes } as const;

export type MeshView = keyof typeof meshViews;

/** The axes of both views. */
export const meshAxes: readonly MeshAxis[] = [...new Set<MeshAxis>([...denseAxes, ...expertAxes])];

/** The position of a process on each axis of both views. */
export type MeshCoordinates = Readonly<Record<MeshAxis, number>>;

const views: readonly (readonly MeshAxis[])[] = Object.values(meshViews);

function checkAxes(axes: readonly string[]): void {
  const known: readonly string[] = meshAxes;
  const unknown = axes.find((axis) => !known.includes(axis));
  if (unknown === undefined) return;
  throw new ConfigurationError('MTL_MESH', `a mesh has no axis ${unknown}`, {
    expected: known.join(', '),
  });
}

/** Returns the view that has all of these axes. */
function viewOf(axes: readonly MeshAxis[]): readonly MeshAxis[] {
  checkAxes(axes);
  const view = views.find((each) => axes.every((axis) => each.includes(axis)));
  if (view !== undefined) return view;
  throw new UsageError('MTL_MESH', `no view of a mesh has all of the axes ${axes.join(', ')}`, {
    expected: `axes among ${denseAxes.join(', ')}, or among ${expertAxes.join(', ')}`,
  });
}

/**
 * The layout of processes: tensor (tp), context (cp), data (dp) and pipeline (pp) parallelism, and the same
 * processes as experts are sharded over them. It is an immutable value with rank arithmetic only: it knows
 * nothing of processes that run.
 */
export class ProcessMesh {
  readonly sizes: MeshCoordinates;
  readonly worldSize: number;

  /**
   * Sizes default to 1; etp to tp, as Megatron-LM's, and edp to what is left of tp x cp x dp.
   *
   * @throws ConfigurationError `MTL_MESH` for a size that is not a positive integer, for no axis of a mesh,
   *   and for etp x ep x edp that is not tp x cp x dp
   */
  constructor(sizes: Partial<MeshCoordinates> = {}) {
    checkAxes(Object.keys(sizes));
    const { tp = 1, cp = 1, dp = 1, pp = 1, etp = tp, ep = 1 } = sizes;
    const stageSize = tp * cp * dp;
    const { edp = Math.max(1, Math.floor(stageSize / (etp * ep))) } = sizes;
    this.sizes = Object.freeze({ tp, cp, dp, pp, etp, ep, edp });
    for (const [axis, size] of Object.entries(this.sizes)) {
      if (Number.isSafeInteger(size) && size > 0) continue;
      throw new ConfigurationError('MTL_MESH', `a mesh of ${size} along ${axis}`, {
        expected: 'a positive integer',
      });
    }
    if (etp * ep * edp !== stageSize) {
      throw new ConfigurationError(
        'MTL_MESH',
        `experts over ${etp} x ${ep} x ${edp} processes (etp, ep, edp) of a stage of ${tp} x ${cp} x ${dp} (tp, cp, dp)`,
        {
          expected: `as many: ${stageSize}`,
          remedy: `choose etp and ep whose product divides ${stageSize}`,
        },
      );
    }
    this.worldSize = stageSize * pp;
  }

  coordinatesOf(rank: number): MeshCoordinates {
    this.#checkRank(rank);
    const coordinates: Record<MeshAxis, number> = { tp: 0, cp: 0, dp: 0, pp: 0, etp: 0, ep: 0, edp: 0 };
    for (const axes of views) {
      let rest = rank;
      for (const axis of axes) {
        coordinates[axis] = rest % this.sizes[axis];
        rest = Math.floor(rest / this.sizes[axis]);
      }
    }
    return coordinates;
  }

  /** Returns the rank with these coordinates of the dense view. */
  rankOf(coordinates: Readonly<Record<DenseAxis, number>>): number {
    let rank = 0;
    for (const axis of denseAxes.toReversed()) {
      const [position, size] = [coordinates[axis], this.sizes[axis]];
      if (!Number.isInteger(position) || position < 0 || position >= size) {
        throw new UsageError('MTL_MESH', `no coordinate ${position} on axis ${axis} of ${size}`);
      }
      rank = rank * size + position;
    }
    return rank;
  }

  /**
   * Returns the ranks that differ from `rank` only along `axes`, itself included, ascending.
   *
   * @throws UsageError `MTL_MESH` for axes that are not all of one view
   */
  groupOf(rank: number, axes: readonly MeshAxis[]): readonly number[] {
    const own = this.coordinatesOf(rank);
    let [first, stride] = [rank, 1];
    const moves: { readonly size: number; readonly stride: number }[] = [];
    for (const axis of viewOf(axes)) {
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

  /** Returns all groups along `axes`, in order of their first rank: every rank is in exactly one. */
  groupsAlong(axes: readonly MeshAxis[]): readonly (readonly number[])[] {
    const groups = Array.from({ length: this.worldSize }, (_, rank) => this.groupOf(rank, axes));
    return groups.filter((group, rank) => group[0] === rank);
  }

  #checkRank(rank: number): void {
    if (Number.isInteger(rank) && rank >= 0 && rank < this.worldSize) return;
    throw new UsageError('MTL_MESH', `no rank ${rank} in a mesh of ${this.worldSize} processes`);
  }
}
