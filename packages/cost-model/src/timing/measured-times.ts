import type {
  ComputeDtype,
  FusedAttentionOperation,
  KernelOperation,
  MatmulOperation,
} from '../operations/operation.js';
import type { MeasuredProfile, MeasuredRates } from '../profiles/hardware-profile.js';
import { localRegression, type RegressionPoint, secondsOfBytes } from './interpolation.js';

/** Seconds of operations on one GPU or in one process. */
export interface OperationTimes {
  matmul(operation: MatmulOperation): number;
  kernel(operation: KernelOperation): number;
  attention(operation: FusedAttentionOperation): number;
}

interface Named {
  readonly name: string;
  readonly dtype?: ComputeDtype | undefined;
  readonly variant?: string | undefined;
}

interface Entry extends Named {
  readonly dtype: ComputeDtype;
}

/**
 * Returns the times of operations, interpolated from measurements. Operations with equal shapes are computed
 * once.
 */
export function measuredTimes(rates: MeasuredRates): OperationTimes {
  const { matmuls, kernels, attention } = rates;
  const matmulRate = new RateByShape(matmuls, (point) => ({
    shape: [point.rows, point.columns, point.depth],
    flops: countFlops(point),
  }));
  const attentionRate = new RateByShape(attention, ({ flops, keys = 1, headSize = 1 }) => ({
    shape: [flops, keys, headSize],
    flops,
  }));
  return {
    matmul: (operation) => {
      const { rows, columns, depth } = operation;
      const entry = findEntry(matmuls, operation, 'matmul');
      return (operation.batch * countFlops(operation)) / matmulRate.at(entry, [rows, columns, depth]);
    },
    kernel: (operation) => secondsOfBytes(findEntry(kernels, operation, 'kernel').points, operation.bytes),
    attention: (operation) => {
      const { flops, keys = 1, headSize = 1 } = operation;
      if (attention.some(({ name }) => name === operation.name)) {
        const entry = findEntry(attention, operation, operation.name);
        return flops / attentionRate.at(entry, [flops, keys, headSize]);
      }
      const { points } = findEntry(matmuls, { ...operation, name: 'matmul' }, 'matmul');
      return flops / Math.max(...points.map((point) => countFlops(point) / point.seconds));
    },
  };
}

/** The processes of a run that share a machine. */
interface SharedMachine {
  readonly numProcesses: number;
  /** Number of threads of each process. Default: the measured number. */
  readonly numThreads?: number | undefined;
}

/**
 * Returns the profile with only the rates for the nearest measured number of processes per machine and, among
 * these, the nearest number of threads.
 */
export function ratesFor(
  hardware: MeasuredProfile,
  { numProcesses, numThreads }: SharedMachine,
): MeasuredProfile {
  const distance = (measured: number, wanted: number): number => Math.abs(Math.log(measured / wanted));
  const [nearest] = [...hardware.rates].sort(
    (a, b) =>
      distance(a.numProcesses, numProcesses) - distance(b.numProcesses, numProcesses) ||
      (numThreads === undefined
        ? 0
        : distance(a.numThreads, numThreads) - distance(b.numThreads, numThreads)),
  );
  const { memoryBytes } = nearest!;
  return {
    ...hardware,
    rates: [nearest!],
    ...(memoryBytes === undefined
      ? {}
      : { memoryBytes: { value: memoryBytes, source: hardware.memoryBytes.source } }),
  };
}

/**
 * Returns the entry for an operation. The first of these that exists is used: its own entry, its entry with a
 * different variant, the entry of its kind in the same dtype, its entry in a different dtype, or the first
 * entry of its kind.
 */
function findEntry<Each extends Entry>(entries: readonly Each[], operation: Named, kind: string): Each {
  const { name, dtype = 'fp32', variant } = operation;
  const isNamed = (wanted: string) => (entry: Entry) => entry.name === wanted;
  const hasDtype = (entry: Entry): boolean => entry.dtype === dtype;
  const hasVariant = (entry: Entry): boolean => entry.variant === variant;
  const own = entries.filter(isNamed(name));
  const ofKind = entries.filter(isNamed(kind));
  return (
    own.find((entry) => hasDtype(entry) && hasVariant(entry)) ??
    own.find(hasDtype) ??
    ofKind.find(hasDtype) ??
    own.find(hasVariant) ??
    own[0] ??
    ofKind[0] ??
    entries[0]!
  );
}

type Shape = Readonly<Record<'rows' | 'columns' | 'depth', number>>;

const countFlops = ({ rows, columns, depth }: Shape): number => 2 * rows * columns * depth;

interface Work {
  readonly shape: readonly number[];
  readonly flops: number;
}

/**
 * The rate in FLOP/s for shapes, interpolated from measurements: a plane in the logarithms of sizes and rate.
 */
class RateByShape<Point extends { readonly seconds: number }> {
  readonly #points: ReadonlyMap<object, readonly RegressionPoint[]>;
  readonly #known = new Map<object, Map<string, number>>();

  constructor(
    entries: readonly { readonly points: readonly Point[] }[],
    computeWork: (point: Point) => Work,
  ) {
    this.#points = new Map(
      entries.map((entry) => [
        entry,
        entry.points.map((point) => {
          const { shape, flops } = computeWork(point);
          return { position: shape.map(Math.log), value: Math.log(flops / point.seconds) };
        }),
      ]),
    );
    for (const entry of entries) this.#known.set(entry, new Map());
  }

  at(entry: object, shape: readonly number[]): number {
    const known = this.#known.get(entry)!;
    const key = shape.join(' ');
    const rate = known.get(key) ?? Math.exp(localRegression(this.#points.get(entry)!, shape.map(Math.log)));
    known.set(key, rate);
    return rate;
  }
}
