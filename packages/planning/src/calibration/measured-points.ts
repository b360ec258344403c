import type { MeasuredRates } from '@mtl/cost-model';
import type { RecordedOperation } from '../plan/recorded-operation.js';
import type { OperationSamples } from './operation-clock.js';

type Entries = Pick<MeasuredRates, 'matmuls' | 'attention' | 'kernels'>;
type MatmulEntry = Entries['matmuls'][number];
type AttentionEntry = Entries['attention'][number];
type KernelEntry = Entries['kernels'][number];

/** Returns the entries of a profile for measured operations. */
export function measuredEntries(all: Iterable<OperationSamples>): Entries {
  const matmuls = new Map<string, MatmulEntry>();
  const attention = new Map<string, AttentionEntry>();
  const kernels = new Map<string, KernelEntry>();
  for (const { operation, seconds } of all) {
    const { mean, spread } = meanWithSpread(seconds);
    const time = { seconds: Math.max(mean, 1e-9), spread: round(spread) };
    switch (operation.kind) {
      case 'matmul': {
        const { batch, rows, columns, depth } = operation;
        // the time of a single matmul, if the operation consists of several matmuls, such as one for each
        // expert
        const each = { ...time, seconds: time.seconds / batch };
        openEntry(matmuls, operation).points.push({ rows, columns, depth, ...each });
        break;
      }
      case 'fused-attention': {
        const { flops, keys, headSize } = operation;
        openEntry(attention, operation).points.push({ flops, keys, headSize, ...time });
        break;
      }
      case 'kernel':
        openEntry(kernels, operation).points.push({ bytes: operation.bytes, ...time });
    }
  }
  for (const { points } of kernels.values()) points.sort((a, b) => a.bytes - b.bytes);
  return {
    matmuls: [...matmuls.values()],
    attention: [...attention.values()],
    kernels: withGeneralKernel([...kernels.values()]),
  };
}

const round = (value: number): number => Number(value.toPrecision(3));

function openEntry<Entry extends { readonly points: unknown[] }>(
  entries: Map<string, Entry>,
  { name, dtype = 'fp32', variant }: RecordedOperation,
): Entry {
  const key = `${name} ${dtype} ${variant}`;
  const entry =
    entries.get(key) ?? ({ name, dtype, ...(variant && { variant }), points: [] } as unknown as Entry);
  entries.set(key, entry);
  return entry;
}

/**
 * Adds entries for kernels that were not measured separately. There is an entry for each dtype, computed from
 * the measured elementwise kernels.
 */
function withGeneralKernel(kernels: readonly KernelEntry[]): KernelEntry[] {
  const dtypes = [...new Set(kernels.map(({ dtype }) => dtype))];
  const general = dtypes.map((dtype): KernelEntry => {
    const own = kernels.filter((entry) => entry.dtype === dtype && entry.variant === undefined);
    const byBytes = new Map<number, number[]>();
    for (const { bytes, seconds } of own.flatMap(({ points }) => points)) {
      const bin = 2 ** Math.round(Math.log2(bytes));
      byBytes.set(bin, [...(byBytes.get(bin) ?? []), seconds]);
    }
    const points = [...byBytes]
      .sort(([a], [b]) => a - b)
      .map(([bytes, seconds]) => {
        const { median, spread } = medianWithSpread(seconds);
        return { bytes, seconds: median, spread: round(spread) };
      });
    return { name: 'kernel', dtype, points };
  });
  return [...kernels, ...general.filter(({ points }) => points.length > 0)];
}

/**
 * Returns the mean and the spread of repeated measurements. The spread is half the distance between the
 * quartiles, divided by the median.
 */
export function meanWithSpread(values: readonly number[]): {
  readonly mean: number;
  readonly spread: number;
} {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return { mean, spread: medianWithSpread(values).spread };
}

/**
 * Returns the median and the spread of repeated measurements. The spread is half the distance between the
 * quartiles, divided by the median.
 */
export function medianWithSpread(values: readonly number[]): {
  readonly median: number;
  readonly spread: number;
} {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (part: number): number => {
    const position = part * (sorted.length - 1);
    const [low, high] = [sorted[Math.floor(position)]!, sorted[Math.ceil(position)]!];
    return low + (position - Math.floor(position)) * (high - low);
  };
  const median = at(0.5);
  return { median, spread: median > 0 ? (at(0.75) - at(0.25)) / 2 / median : 0 };
}
