import type { MatmulOperation } from '../operations/operation.js';
import type { GpuProfile } from '../profiles/hardware-profile.js';

/** Parts into which the depth of a matmul can be split where its tiles do not fill the multiprocessors. */
const splits = [1, 2, 4, 8];

/**
 * Time of a matmul. The result is cut into tiles, one on each multiprocessor at a
 * time, so that the time of the tiles is a whole number of waves; the best of the library's tiles is taken.
 * Not less than the time of the bytes of operands and result.
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

/** Bytes that a matmul reads and writes, each operand once. */
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
