import { Tensor } from '@mtl/kernels';
import { afterAll, describe, expect, it } from 'vitest';
import { PositionTables } from './position-tables.js';
import { type RowCoordinate, RowCoordinates } from './row-coordinates.js';

describe('RowCoordinates', () => {
  // four rows of two samples
  const host = {
    shape: [4, 2] as const,
    numPositions: 4,
    findPosition: (index: number) => Math.floor(index / 2),
    findSample: (index: number) => [5n, 2n ** 40n][index % 2]!,
  };

  const tables = new PositionTables('cpu');
  afterAll(() => tables.dispose());

  function upload(...reads: RowCoordinate[]) {
    let numUploads = 0;
    const rows = RowCoordinates.upload(host, {
      reads: new Set(reads),
      tables,
      own: { start: 1, end: 3 },
      device: 'cpu',
      upload: (values, options) => {
        numUploads += 1;
        return Tensor.from(values, options);
      },
    });
    return { rows, numUploads };
  }

  it('are the coordinates of the own rows, and the positions of all rows', () => {
    const { rows } = upload('positions', 'samples', 'regionPositions');
    const read = (coordinate: RowCoordinate) => {
      const { tensor } = rows.of(coordinate);
      return [tensor.shape, [...(tensor.read() as Int32Array | BigInt64Array)]];
    };
    expect(read('positions')).toEqual([
      [2, 2],
      [1, 1, 2, 2],
    ]);
    expect(read('samples')).toEqual([
      [2, 2],
      [5n, 2n ** 40n, 5n, 2n ** 40n],
    ]);
    expect(read('regionPositions')).toEqual([
      [4, 2],
      [0, 0, 1, 1, 2, 2, 3, 3],
    ]);
    rows.release();
  });

  it('are not uploaded where nothing reads them, and then refused', () => {
    const { rows, numUploads } = upload('positions');
    expect(numUploads).toBe(1);
    expect(() => rows.of('samples')).toThrow(
      expect.objectContaining({
        code: 'MTL_STAGE',
        message: 'a layer reads the samples of rows, which it does not declare',
        expected: 'one of positions',
      }),
    );
    rows.release();
    expect(upload().numUploads).toBe(0);
  });

  it('are tables of all positions, one of each that is read', () => {
    const values = (numPositions: number) => Float32Array.from({ length: 3 * numPositions }, (_, i) => i);
    const [read, other] = ['read', 'other'].map((name) => ({ name, width: 3, values }));
    const { rows, numUploads } = upload('positions', read!, { ...read! });
    expect(numUploads).toBe(1);
    expect(rows.of(read!).tensor.shape).toEqual([4, 3]);
    expect(rows.of({ ...read! }).tensor.toArray()).toEqual([...values(4)]);
    expect(() => rows.of(other!)).toThrow(/reads the other of rows/);
    rows.release();
  });
});
