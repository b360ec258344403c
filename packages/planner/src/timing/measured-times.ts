import type { ComputeDtype, MatmulOperation } from '../operations/operation.js';
import type { MeasuredProfile, MeasuredRates } from '../profiles/measured-profile.js';
import type { OperationTimes } from './operation-times.js';

interface Entry {
  readonly name: string;
  readonly dtype: ComputeDtype;
}

/** Times between those that were measured. */
export function measuredTimes(rates: MeasuredRates): OperationTimes {
  const { matmuls, kernels, attention } = rates;
  return {
    matmul: (operation) => {
      const { points } = entryOf(matmuls, operation, 'matmul');
      return (operation.batch * flopsOf(operation)) / matmulRate(points, operation);
    },
    kernel: (operation) => {
      const { points } = entryOf(kernels, operation, 'kernel');
      return between(
        points.map(({ bytes, seconds }) => ({ size: bytes, seconds })),
        operation.bytes,
      );
    },
    attention: (operation) => {
      const entry = attention.find((each) => matches(each, operation));
      if (entry === undefined) {
        const { points } = entryOf(matmuls, { ...operation, name: 'matmul' }, 'matmul');
        return operation.flops / Math.max(...points.map((point) => flopsOf(point) / point.seconds));
      }
      return between(
        entry.points.map(({ flops, seconds }) => ({ size: flops, seconds })),
        operation.flops,
      );
    },
  };
}

/**
 * The same profile with the rates of so many processes on each machine, or of the number nearest to it that
 * was measured.
 */
export function ratesFor(hardware: MeasuredProfile, numProcesses: number): MeasuredProfile {
  const distance = (rates: MeasuredRates): number => Math.abs(Math.log(rates.numProcesses / numProcesses));
  const [nearest] = [...hardware.rates].sort((a, b) => distance(a) - distance(b));
  return { ...hardware, rates: [nearest!] };
}

const matches = (entry: Entry, operation: { name: string; dtype?: ComputeDtype }): boolean =>
  entry.name === operation.name && entry.dtype === (operation.dtype ?? 'fp32');

/** The entry of an operation, that of its kind in the same dtype, or the first of its kind. */
function entryOf<Each extends Entry>(
  entries: readonly Each[],
  operation: { name: string; dtype?: ComputeDtype },
  kind: string,
): Each {
  return (
    entries.find((entry) => matches(entry, operation)) ??
    entries.find((entry) => matches(entry, { ...operation, name: kind })) ??
    entries.find((entry) => entry.name === operation.name) ??
    entries.find((entry) => entry.name === kind) ??
    entries[0]!
  );
}

type Shape = Pick<MatmulOperation, 'rows' | 'columns' | 'depth'>;

const flopsOf = ({ rows, columns, depth }: Shape): number => 2 * rows * columns * depth;

/**
 * FLOPs per second of a shape: the mean, in logarithms, of the measured shapes, weighted by the inverse
 * fourth power of their distances in the logarithms of rows, columns and depth.
 */
function matmulRate(points: readonly (Shape & { readonly seconds: number })[], shape: Shape): number {
  let [sum, weights] = [0, 0];
  for (const point of points) {
    const distance =
      Math.log(point.rows / shape.rows) ** 2 +
      Math.log(point.columns / shape.columns) ** 2 +
      Math.log(point.depth / shape.depth) ** 2;
    const weight = 1 / (distance + 1e-6) ** 2;
    sum += weight * Math.log(flopsOf(point) / point.seconds);
    weights += weight;
  }
  return Math.exp(sum / weights);
}

interface Point {
  readonly size: number;
  readonly seconds: number;
}

/**
 * Seconds of a size: in logarithms linear between the two points around it; those of the smallest below it,
 * and in proportion to the size above the largest.
 */
function between(points: readonly Point[], size: number): number {
  const sorted = [...points].sort((a, b) => a.size - b.size);
  const above = sorted.findIndex((point) => point.size >= size);
  if (above === 0) return sorted[0]!.seconds;
  const last = sorted.at(-1)!;
  if (above < 0) return (last.seconds * size) / last.size;
  const [low, high] = [sorted[above - 1]!, sorted[above]!];
  const part = Math.log(size / low.size) / Math.log(high.size / low.size);
  return low.seconds * (high.seconds / low.seconds) ** part;
}
