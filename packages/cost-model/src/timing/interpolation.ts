/** A measured value at a position. */
export interface RegressionPoint {
  readonly position: readonly number[];
  readonly value: number;
}

/** The regularization that makes slopes zero if nearby points do not determine them. */
const ridge = 0.02;

/**
 * Returns the value at a position by fitting a plane to the points with least squares, weighted by the
 * inverse fourth power of their distances. The result stays within the range of the points' values.
 */
export function localRegression(points: readonly RegressionPoint[], position: readonly number[]): number {
  const numColumns = position.length + 1;
  // the normal equations for the offset and the slopes; the last column is their right-hand side
  const rows = Array.from({ length: numColumns }, () => new Float64Array(numColumns + 1));
  const differences = points.map((point) => point.position.map((each, axis) => each - position[axis]!));
  const weights = differences.map(
    (difference) => 1 / (difference.reduce((sum, each) => sum + each ** 2, 0) + 1e-6) ** 2,
  );
  const total = weights.reduce((sum, each) => sum + each, 0);
  points.forEach(({ value }, index) => {
    const weight = weights[index]! / total;
    const terms = [1, ...differences[index]!];
    for (let row = 0; row < numColumns; row++) {
      for (let column = 0; column < numColumns; column++) {
        rows[row]![column]! += weight * terms[row]! * terms[column]!;
      }
      rows[row]![numColumns]! += weight * terms[row]! * value;
    }
  });
  // the regularization is proportional to the points' squared distances, so that it also works for close
  // points
  const scale = position.reduce((sum, _, axis) => sum + rows[axis + 1]![axis + 1]!, 0);
  for (let axis = 1; axis < numColumns; axis++) rows[axis]![axis]! += ridge * scale + 1e-12;
  const values = points.map(({ value }) => value);
  return Math.min(Math.max(solve(rows)[0]!, Math.min(...values)), Math.max(...values));
}

/** Solves a positive definite system by Gaussian elimination; the last column is the right-hand side. */
function solve(rows: readonly Float64Array[]): number[] {
  const size = rows.length;
  for (let pivot = 0; pivot < size; pivot++) {
    for (let row = pivot + 1; row < size; row++) {
      const factor = rows[row]![pivot]! / rows[pivot]![pivot]!;
      for (let column = pivot; column <= size; column++) {
        rows[row]![column]! -= factor * rows[pivot]![column]!;
      }
    }
  }
  const solution = new Array<number>(size).fill(0);
  for (let row = size - 1; row >= 0; row--) {
    let rest = rows[row]![size]!;
    for (let column = row + 1; column < size; column++) rest -= rows[row]![column]! * solution[column]!;
    solution[row] = rest / rows[row]![row]!;
  }
  return solution;
}

/** The seconds that were measured for a number of bytes. */
interface BytesPoint {
  readonly bytes: number;
  readonly seconds: number;
}

/**
 * Returns the seconds for a number of bytes. Between two points, logarithms are interpolated linearly. Below
 * the smallest point, the result is this point's time. Above the largest point, the result is proportional to
 * the bytes.
 */
export function secondsOfBytes(points: readonly BytesPoint[], bytes: number): number {
  const sorted = [...points].sort((a, b) => a.bytes - b.bytes);
  const above = sorted.findIndex((point) => point.bytes >= bytes);
  if (above === 0) return sorted[0]!.seconds;
  const last = sorted.at(-1)!;
  if (above < 0) return (last.seconds * bytes) / last.bytes;
  const [low, high] = [sorted[above - 1]!, sorted[above]!];
  const part = Math.log(bytes / low.bytes) / Math.log(high.bytes / low.bytes);
  return low.seconds * (high.seconds / low.seconds) ** part;
}
