import { describe, expect, it } from 'vitest';
import { transpose } from './transpose.js';

/** Returns a source matrix whose values encode their positions. */
const makePlaces = (numRows: number, numColumns: number): Float32Array =>
  Float32Array.from({ length: numRows * numColumns }, (_, index) => index);

const reversed = (count: number): Int32Array => Int32Array.from({ length: count }, (_, at) => count - 1 - at);

describe('transpose', () => {
  // sizes with complete and incomplete cache lines of 16 values, for one thread and for several threads
  it.each([
    [1, 1],
    [3, 50],
    [16, 32],
    [17, 31],
    [0, 5],
    [300, 130],
  ])('puts [%i, %i] in the other order', (numRows, numColumns) => {
    const source = makePlaces(numRows, numColumns);
    for (const rowOrder of [undefined, reversed(numRows)]) {
      for (const columnOrder of [undefined, reversed(numColumns)]) {
        const target = new Float32Array(source.length).fill(-1);
        transpose({ target, source, numRows, numColumns, rowOrder, columnOrder });
        const expected = Float32Array.from(source, (_, index) => {
          const [row, column] = [index % numRows, Math.floor(index / numRows)];
          return (rowOrder?.[row] ?? row) * numColumns + (columnOrder?.[column] ?? column);
        });
        expect(target).toEqual(expected);
      }
    }
  });

  it.each([1, 2, 4, 8])('moves elements of %i bytes whole', (elementBytes) => {
    const [numRows, numColumns] = [19, 35];
    const source = Uint8Array.from({ length: numRows * numColumns * elementBytes }, (_, byte) => byte % 251);
    const target = new Uint8Array(source.length);
    transpose({ target, source, numRows, numColumns, elementBytes });
    const elementAt = (bytes: Uint8Array, at: number) =>
      bytes.subarray(at * elementBytes, (at + 1) * elementBytes);
    for (let row = 0; row < numRows; row++) {
      for (let column = 0; column < numColumns; column++) {
        const moved = elementAt(target, column * numRows + row);
        expect(moved).toEqual(elementAt(source, row * numColumns + column));
      }
    }
  });

  it('refuses arrays of another length, and orders with numbers that are no row or column', () => {
    const source = makePlaces(2, 3);
    const target = new Float32Array(6);
    const shape = { target, source, numRows: 2, numColumns: 3 };
    const code = (expected: string) => expect.objectContaining({ code: expected });
    expect(() => transpose({ ...shape, numRows: 3 })).toThrow(code('MTL_SHAPE'));
    expect(() => transpose({ ...shape, target: new Float32Array(5) })).toThrow(code('MTL_SHAPE'));
    const bytes = new Uint8Array(25);
    const unaligned = { target: bytes.subarray(1), source: new Uint8Array(24), elementBytes: 4 };
    expect(() => transpose({ ...shape, ...unaligned })).toThrow(code('MTL_ARGUMENT'));
    expect(() => transpose({ ...shape, elementBytes: 3 })).toThrow(code('MTL_SHAPE'));
    expect(() => transpose({ ...shape, rowOrder: Int32Array.of(0) })).toThrow(code('MTL_INDEX'));
    expect(() => transpose({ ...shape, rowOrder: Int32Array.of(0, 2) })).toThrow(code('MTL_INDEX'));
    expect(() => transpose({ ...shape, columnOrder: Int32Array.of(0, -1, 1) })).toThrow(code('MTL_INDEX'));
  });
});
