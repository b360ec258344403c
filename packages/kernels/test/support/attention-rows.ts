import {
  type AttentionCase,
  computeSampleNumber,
  computeStarts,
  listPlaces,
  listShapes,
  statisticAt,
} from './attention-case.js';
import type { AttentionResults, AttentionValues } from './attention-oracle.js';

/** Two cases over the same samples, by number: whole and in part, padded and packed. */
export interface Move {
  readonly from: AttentionCase;
  readonly to: AttentionCase;
}

/** Returns, for every row of `to`, the row of `from` for the same position of a sample; -1 without one. */
function findRows({ from, to }: Move, of: 'queries' | 'keys'): number[] {
  const [ranges, batch] = [from[of], from[of].length];
  const starts = computeStarts(ranges);
  const numbers = ranges.map((_, sample) => computeSampleNumber(from, sample));
  return listPlaces(to, of).map((place) => {
    if (place === undefined) return -1;
    const number = computeSampleNumber(to, place.sample);
    const sample = ranges.findIndex(
      ([first, end], index) => numbers[index] === number && place.position >= first && place.position < end,
    );
    if (sample < 0) return -1;
    const position = place.position - ranges[sample]![0];
    return from.isPacked ? starts[sample]! + position : position * batch + sample;
  });
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
  const [queries, keys] = [findRows(move, 'queries'), findRows(move, 'keys')];
  const shapes = listShapes(move.to);
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
  const [queries, keys] = [findRows(move, 'queries'), findRows(move, 'keys')];
  const shapes = listShapes(move.to);
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

/** Adds the gradients of a part to the gradients of the whole. */
export function addGradients(
  to: AttentionResults,
  part: Pick<AttentionResults, 'query' | 'key' | 'value'>,
  move: Move,
): void {
  const shapes = listShapes(move.to);
  for (const name of ['query', 'key', 'value'] as const) {
    const width = shapes[name].at(-2)! * shapes[name].at(-1)!;
    const rows = findRows({ from: move.to, to: move.from }, name === 'query' ? 'queries' : 'keys');
    rows.forEach((row, index) => {
      for (let at = 0; at < width; at++) to[name][row * width + at]! += part[name][index * width + at]!;
    });
  }
}

/** Returns the values of heads [first, first + count) of a case in which every head has its own keys. */
export function selectHeads(
  one: AttentionCase,
  values: AttentionValues,
  [first, count]: readonly [first: number, count: number],
): AttentionValues {
  const shapes = listShapes(one);
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
