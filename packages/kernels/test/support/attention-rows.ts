import {
  type AttentionCase,
  type Place,
  placesOf,
  sampleNumberOf,
  shapesOf,
  statisticAt,
} from './attention-case.js';
import type { AttentionResults, AttentionValues } from './attention-oracle.js';

/** Two cases over the same samples, by number: whole and in part, padded and packed. */
export interface Move {
  readonly from: AttentionCase;
  readonly to: AttentionCase;
}

/** Returns, for every row of `to`, the row of `from` for the same position of a sample; -1 without one. */
function rowsOf({ from, to }: Move, of: 'queries' | 'keys'): number[] {
  const nameOf = (one: AttentionCase, place: Place | undefined) =>
    place && `${sampleNumberOf(one, place.sample)} ${place.position}`;
  const rows = new Map(placesOf(from, of).map((place, row) => [nameOf(from, place), row]));
  return placesOf(to, of).map((place) => (place && rows.get(nameOf(to, place))) ?? -1);
}

/** Returns the rows of a tensor [..., heads, size]; zeros for -1. */
function rowsAt(source: Float64Array, rows: readonly number[], shape: readonly number[]): Float64Array {
  const width = shape.at(-2)! * shape.at(-1)!;
  const result = new Float64Array(rows.length * width);
  rows.forEach((row, index) => {
    if (row >= 0) result.set(source.subarray(row * width, (row + 1) * width), index * width);
  });
  return result;
}

/** Returns the inputs of `to` from the inputs of `from`; zeros where `from` has none. */
export function moveValues(values: AttentionValues, move: Move): AttentionValues {
  const [queries, keys] = [rowsOf(move, 'queries'), rowsOf(move, 'keys')];
  const shapes = shapesOf(move.to);
  return {
    query: rowsAt(values.query, queries, shapes.query),
    key: rowsAt(values.key, keys, shapes.key),
    value: rowsAt(values.value, keys, shapes.value),
    outputGradient: rowsAt(values.outputGradient, queries, shapes.output),
  };
}

/**
 * Returns the results of `to` from the results of `from`; where `from` has none, those without visible keys.
 */
export function moveResults(results: AttentionResults, move: Move): AttentionResults {
  const [queries, keys] = [rowsOf(move, 'queries'), rowsOf(move, 'keys')];
  const shapes = shapesOf(move.to);
  const logSumExp = new Float64Array(queries.length * move.to.heads).fill(Math.fround(-1e30));
  queries.forEach((row, index) => {
    for (let head = 0; row >= 0 && head < move.to.heads; head++) {
      logSumExp[statisticAt(move.to, index, head)] = results.logSumExp[statisticAt(move.from, row, head)]!;
    }
  });
  return {
    output: rowsAt(results.output, queries, shapes.output),
    logSumExp,
    query: rowsAt(results.query, queries, shapes.query),
    key: rowsAt(results.key, keys, shapes.key),
    value: rowsAt(results.value, keys, shapes.value),
  };
}

/** Returns values that a head of the case has of its own: heads [first, first + count). */
export function headsOf(
  one: AttentionCase,
  values: AttentionValues,
  [first, count]: readonly [first: number, count: number],
): AttentionValues {
  const shapes = shapesOf(one);
  const take = (source: Float64Array, shape: readonly number[]) => {
    const [heads, size] = [shape.at(-2)!, shape.at(-1)!];
    return source.filter((_, index) => {
      const head = Math.floor(index / size) % heads;
      return head >= first && head < first + count;
    });
  };
  return {
    query: take(values.query, shapes.query),
    key: take(values.key, shapes.key),
    value: take(values.value, shapes.value),
    outputGradient: take(values.outputGradient, shapes.output),
  };
}
