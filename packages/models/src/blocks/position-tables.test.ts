import { numLiveTensors } from '@mtl/kernels';
import { describe, expect, it, vi } from 'vitest';
import { PositionTables } from './position-tables.js';
import { rotaryPositions } from './rotary-positions.js';

const rotary = { rotarySize: 4, base: 10_000, interleaved: false };

/** Returns the first `numPositions` rows of a table. */
function readRows(tables: PositionTables, table: ReturnType<typeof rotaryPositions>, numPositions: number) {
  using rows = tables.view(table, numPositions);
  return { shape: rows.shape, values: rows.toArray() };
}

describe('PositionTables', () => {
  it('make a table once for all that read it, and again only where it is too short', () => {
    const tables = new PositionTables('cpu');
    const positions = rotaryPositions(rotary);
    const values = vi.fn(positions.values);
    const [one, other] = [positions, rotaryPositions({ ...rotary })].map((table) => ({ ...table, values }));
    const long = readRows(tables, one!, 6);
    expect(long.shape).toEqual([6, 4]);
    expect(readRows(tables, other!, 6)).toEqual(long);
    expect(readRows(tables, other!, 3).values).toEqual(long.values.slice(0, 12));
    expect(values).toHaveBeenCalledTimes(1);
    expect(readRows(tables, one!, 7).values.slice(0, 24)).toEqual(long.values);
    expect(readRows(tables, one!, 12).shape).toEqual([12, 4]);
    expect(values).toHaveBeenCalledTimes(2);
    tables.dispose();
  });

  it('tell frequencies apart, and give their memory back', () => {
    const before = numLiveTensors();
    const tables = new PositionTables('cpu');
    const [plain, slower] = [rotary, { ...rotary, base: 500_000 }].map(rotaryPositions);
    expect(readRows(tables, plain!, 5)).not.toEqual(readRows(tables, slower!, 5));
    expect(numLiveTensors()).toBe(before + 2);
    readRows(tables, plain!, 6);
    // recorded forward and backward passes may still read the shorter table, so it is kept
    expect(numLiveTensors()).toBe(before + 3);
    tables.dispose();
    expect(numLiveTensors()).toBe(before);
  });
});
