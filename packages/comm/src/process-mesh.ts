import { ConfigurationError, UsageError } from '@mtl/errors';

/**
 * Axes of the mesh, in rank order: neighbouring ranks differ in tp first, in pp last (Narayanan et al. 2021,
 * 3.1).
 */
export const meshAxes = ['tp', 'cp', 'dp', 'pp'] as const;

export type MeshAxis = (typeof meshAxes)[number];

/** Where a process stands on each axis. */
export type MeshCoordinates = Readonly<Record<MeshAxis, number>>;

function checkAxes(axes: readonly string[]): void {
  const known: readonly string[] = meshAxes;
  const unknown = [...axes].find((axis) => !known.includes(axis));
  if (unknown === undefined) return;
  throw new ConfigurationError('MTL_MESH', `a mesh has no axis ${unknown}`, {
    expected: meshAxes.join(', '),
  });
}

/**
 * How processes are laid out: tensor (tp), context (cp), data (dp) and pipeline (pp) parallelism. An
 * immutable value with rank mathematics only: it knows nothing of processes that run.
 */
export class ProcessMesh {
  readonly sizes: MeshCoordinates;
  readonly worldSize: number;

  /**
   * Sizes default to 1.
   *
   * @throws ConfigurationError MTL_MESH for a size that is not a positive integer, and for no axis of a mesh
   */
  constructor(sizes: Partial<MeshCoordinates> = {}) {
    checkAxes(Object.keys(sizes));
    const { tp = 1, cp = 1, dp = 1, pp = 1 } = sizes;
    this.sizes = Object.freeze({ tp, cp, dp, pp });
    for (const axis of meshAxes) {
      const size = this.sizes[axis];
      if (Number.isSafeInteger(size) && size > 0) continue;
      throw new ConfigurationError('MTL_MESH', `a mesh of ${size} along ${axis}`, {
        expected: 'a positive integer',
      });
    }
    this.worldSize = tp * cp * dp * pp;
  }

  coordinatesOf(rank: number): MeshCoordinates {
    this.#checkRank(rank);
    const coordinates: Record<MeshAxis, number> = { tp: 0, cp: 0, dp: 0, pp: 0 };
    let rest = rank;
    for (const axis of meshAxes) {
      coordinates[axis] = rest % this.sizes[axis];
      rest = Math.floor(rest / this.sizes[axis]);
    }
    return coordinates;
  }

  rankOf(coordinates: MeshCoordinates): number {
    let rank = 0;
    for (const axis of meshAxes.toReversed()) {
      const [position, size] = [coordinates[axis], this.sizes[axis]];
      if (!Number.isInteger(position) || position < 0 || position >= size) {
        throw new UsageError('MTL_MESH', `no coordinate ${position} on axis ${axis} of ${size}`);
      }
      rank = rank * size + position;
    }
    return rank;
  }

  /** The ranks that differ from `rank` only along `axes`, itself included, ascending. */
  groupOf(rank: number, axes: readonly MeshAxis[]): readonly number[] {
    checkAxes(axes);
    const own = this.coordinatesOf(rank);
    return Array.from({ length: this.worldSize }, (_, other) => other).filter((other) => {
      const coordinates = this.coordinatesOf(other);
      return meshAxes.every((axis) => axes.includes(axis) || coordinates[axis] === own[axis]);
    });
  }

  /** All groups along `axes`: every rank is in exactly one. In order of their first rank. */
  groupsAlong(axes: readonly MeshAxis[]): readonly (readonly number[])[] {
    const groups = Array.from({ length: this.worldSize }, (_, rank) => this.groupOf(rank, axes));
    return groups.filter((group, rank) => group[0] === rank);
  }

  #checkRank(rank: number): void {
    if (Number.isInteger(rank) && rank >= 0 && rank < this.worldSize) return;
    throw new UsageError('MTL_MESH', `no rank ${rank} in a mesh of ${this.worldSize} processes`);
  }
}
