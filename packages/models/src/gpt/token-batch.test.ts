import type { Variable } from '@mtl/autograd';
import { numLiveTensors } from '@mtl/kernels';
import { describe, expect, it } from 'vitest';
import { PositionTables } from '../blocks/position-tables.js';
import { sequenceFirst, toDevice } from './token-batch.js';

// two rows of four positions: 0 to 3 and 10 to 13
const batch = sequenceFirst({
  batchSize: 2,
  sequenceLength: 4,
  tokens: Int32Array.of(0, 1, 2, 3, 10, 11, 12, 13),
  labels: Int32Array.of(1, 2, 3, 4, 11, 12, 13, 14),
  lossMask: Float32Array.of(1, 1, 1, 0, 0, 1, 1, 1),
  positionIds: Int32Array.of(0, 1, 2, 3, 0, 1, 2, 3),
  sampleNumbers: Float64Array.of(7, 8),
  keyStart: Int32Array.of(0, 0, 2, 2, 0, 1, 1, 3),
});

describe('toDevice', () => {
  it.each([
    { positions: [0, 1, 2, 3] },
    // a rank's share under context parallelism, and all of them in another order
    { positions: [1, 2] },
    { positions: [0, 3, 1, 2] },
  ])('takes of every row the positions $positions, in their order', ({ positions }) => {
    const tables = new PositionTables('cpu');
    const onDevice = toDevice(batch, {
      device: 'cpu',
      lossFactor: 0.5,
      isFirst: true,
      embedsPositions: true,
      positions: Int32Array.from(positions),
      own: { start: 0, end: positions.length },
      reads: new Set(),
      tables,
    });
    const valuesOf = (variable: Variable | undefined): number[] =>
      Array.from(variable!.tensor.toArray(), Number);
    const eachOf = (valueAt: (row: number, position: number) => number): number[] =>
      positions.flatMap((position) => [0, 1].map((row) => valueAt(row, position)));
    const mask = [
      [1, 1, 1, 0],
      [0, 1, 1, 1],
    ];
    const keyStart = [
      [0, 0, 2, 2],
      [0, 1, 1, 3],
    ];
    expect(valuesOf(onDevice.tokens)).toEqual(eachOf((row, position) => 10 * row + position));
    expect(valuesOf(onDevice.labels)).toEqual(eachOf((row, position) => 10 * row + position + 1));
    expect(valuesOf(onDevice.positionIds)).toEqual(eachOf((_, position) => position));
    expect(valuesOf(onDevice.weights)).toEqual(eachOf((row, position) => 0.5 * mask[row]![position]!));
    // [B, S]
    expect(valuesOf(onDevice.keyStart)).toEqual(
      keyStart.flatMap((row) => positions.map((position) => row[position]!)),
    );
    expect(valuesOf(onDevice.samples)).toEqual([7, 8]);
    onDevice.release();
    tables.dispose();
    expect(numLiveTensors()).toBe(0);
  });
});
