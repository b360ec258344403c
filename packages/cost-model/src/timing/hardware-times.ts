import type { ComputeDtype, MatmulOperation } from '../operations/operation.js';
import type { GpuProfile, HardwareProfile } from '../profiles/hardware-profile.js';
import { measuredTimes, type OperationTimes } from './measured-times.js';

const known = new WeakMap<HardwareProfile, OperationTimes>();

/**
 * Returns functions that compute how long operations take on a profile's hardware. If the profile has
 * measured rates, the first entry is used (see `ratesFor`).
 */
export function hardwareTimes(hardware: HardwareProfile): OperationTimes {
  const times =
    known.get(hardware) ??
    (hardware.state === 'measured' ? measuredTimes(hardware.rates[0]!) : gpuTimes(hardware));
  known.set(hardware, times);
  return times;
}

/** Returns operation times that are computed from a GPU's profile. */
function gpuTimes(hardware: GpuProfile): OperationTimes {
  const { memory, matmul, attention, kernelStartSeconds } = hardware;
  const start = kernelStartSeconds.value;
  const bandwidth = memory.bytesPerSecond.value * memory.efficiency.value;
  const scoresBandwidth = memory.bytesPerSecond.value * memory.scoresEfficiency.value;
  return {
    matmul: (operation) => matmulSeconds(operation, hardware),
    kernel: ({ bytes, time }) => start + bytes / (time === 'attention' ? scoresBandwidth : bandwidth),
    attention: ({ flops, bytes, dtype = 'fp16' }) => {
      const rate = matmul.peakFlops[dtype].value * attention.flashEfficiency.value;
      return start + Math.max(flops / rate, bytes / bandwidth);
    },
  };
}

/**
 * The counts of parts into which a matmul's depth may be split if its tiles do not use all multiprocessors.
 */
const splits = [1, 2, 4, 8];

/**
 * Returns the time of a matmul. Its result is divided into tiles; each multiprocessor computes one tile at a
 * time, so that there is an integral number of waves. The best of the library's tiles is used. The time is at
 * least the time to transfer operands and result.
 */
export function matmulSeconds(
  operation: MatmulOperation,
  { matmul, memory, kernelStartSeconds }: GpuProfile,
): number {
  const { batch, rows, columns, depth, time, dtype = 'fp16' } = operation;
  const efficiency = time === 'attention' ? memory.scoresEfficiency : memory.efficiency;
  const bandwidth = memory.bytesPerSecond.value * efficiency.value;
  const numMultiprocessors = matmul.numMultiprocessors.value;
  const rate = (matmul.peakFlops[dtype].value * matmul.efficiency.value) / numMultiprocessors;
  const results = batch * rows * columns;
  const bytes = matmulBytes(operation);
  let best = Number.POSITIVE_INFINITY;
  for (const tile of matmul.tiles) {
    const numTiles = batch * Math.ceil(rows / tile.rows) * Math.ceil(columns / tile.columns);
    for (const split of splits) {
      if (split > 1 && numTiles * split > numMultiprocessors) break;
      const waves = Math.ceil((numTiles * split) / numMultiprocessors);
      const tileFlops = 2 * tile.rows * tile.columns * (depth / split + matmul.tileOverheadDepth.value);
      const computing = (waves * tileFlops) / (rate * tile.relativeRate);
      const moving = (bytes + (split > 1 ? 8 * results * split : 0)) / bandwidth;
      best = Math.min(best, Math.max(computing, moving));
    }
  }
  return best + kernelStartSeconds.value;
}

/** Returns the number of bytes that a matmul reads and writes, counting each operand once. */
export function matmulBytes({
  batch,
  rows,
  columns,
  depth,
  resultBytes,
  dtype = 'fp16',
}: MatmulOperation): number {
  const elementBytes = dtype === 'fp32' ? 4 : 2;
  return batch * (elementBytes * depth * (rows + columns) + resultBytes * rows * columns);
}

/**
 * Returns the peak rate in FLOP/s of a GPU or a process: from the data sheet, or from the fastest measured
 * matmul in the dtype.
 */
export function peakFlops(hardware: HardwareProfile, dtype: ComputeDtype): number {
  if (hardware.state !== 'measured') return hardware.matmul.peakFlops[dtype].value;
  const entries = hardware.rates.flatMap(({ matmuls }) => matmuls);
  const ofDtype = entries.filter((entry) => entry.dtype === dtype);
  const points = (ofDtype.length === 0 ? entries : ofDtype).flatMap((entry) => entry.points);
  return Math.max(
    ...points.map(({ rows, columns, depth, seconds }) => (2 * rows * columns * depth) / seconds),
  );
}
