import type { Variable } from '@mtl/autograd';
import { numLiveTensors } from '@mtl/kernels';
import { describe, expect, it } from 'vitest';
import { PositionTables } from '../blocks/position-tables.js';
import { wholeSequence } from '../blocks/sequence-partition.js';
import { sequenceFirst, toDevice } from './token-batch.js';

// two rows of four positions each: 0 to 3 and 10 to 13
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
    { indices: undefined },
    // a rank's share with context parallelism: the rows may differ in their positions and order
    { indices: [2, 3, 4, 5] },
    { indices: [0, 3, 6, 1] },
    { indices: [0, 1, 6, 7, 2, 3, 4, 5] },
  ])('takes the rows $indices, in their order', ({ indices }) => {
    let numReleased = 0;
    const ownRows = {
      indices: indices && Int32Array.from(indices),
      attend: () => {
        throw new Error('nothing attends');
      },
      release: () => {
        numReleased += 1;
      },
    };
    const own = indices ?? Array.from({ length: 8 }, (_, index) => index);
    const tables = new PositionTables('cpu');
    const onDevice = toDevice(batch, {
      device: 'cpu',
      lossFactor: 0.5,
      isFirst: true,
      embedsPositions: true,
      partition: { ...wholeSequence, ofSequences: () => ownRows },
      own: { start: 0, end: own.length / 2 },
      reads: new Set(['positions', 'samples']),
      tables,
    });
    const readValues = (variable: Variable | undefined): number[] =>
      Array.from(variable!.tensor.toArray(), Number);
    const computeEach = (valueAt: (row: number, position: number) => number): number[] =>
      own.map((index) => valueAt(index % 2, Math.floor(index / 2)));
    const mask = [
      [1, 1, 1, 0],
      [0, 1, 1, 1],
    ];
    expect(readValues(onDevice.tokens)).toEqual(computeEach((row, position) => 10 * row + position));
    expect(readValues(onDevice.labels)).toEqual(computeEach((row, position) => 10 * row + position + 1));
    expect(readValues(onDevice.positionIds)).toEqual(computeEach((_, position) => position));
    expect(readValues(onDevice.weights)).toEqual(computeEach((row, position) => 0.5 * mask[row]![position]!));
    expect(readValues(onDevice.samples)).toEqual([7, 8]);
    expect(readValues(onDevice.rows.of('positions'))).toEqual(computeEach((_, position) => position));
    expect(readValues(onDevice.rows.of('samples'))).toEqual(computeEach((row) => 7 + row));
    onDevice.release();
    expect(numReleased).toBe(1);
    tables.dispose();
    expect(numLiveTensors()).toBe(0);
  });
});
