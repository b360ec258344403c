import type { ComputeDtype } from '../operations/operation.js';
import type { HardwareProfile } from '../profiles/hardware-profile.js';

/**
 * FLOPs per second that a GPU or a process has at most: those of the data sheet, or of the fastest matmul
 * that was measured in the dtype.
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
