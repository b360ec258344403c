/**
 * A run of values that are consecutive both in the source array and in the target array, in row-major order.
 */
export interface ValueRun {
  /** The position of the run's first value in the source array. */
  readonly from: number;
  /** The position of the run's first value in the target array. */
  readonly to: number;
  readonly length: number;
}

/** The range of values [start, end) in a row-major array. */
export interface ValueRange {
  readonly start: number;
  readonly end: number;
}

/**
 * Returns the runs for the opposite direction: source and target are exchanged, and the runs are in the order
 * of the new target.
 */
export const reversedRuns = (runs: readonly ValueRun[]): readonly ValueRun[] =>
  runs
    .map(({ from, to, length }) => ({ from: to, to: from, length }))
    .toSorted((one, other) => one.to - other.to);

/**
 * Returns the runs, or parts of runs, that fill the given range of the target.
 *
 * @param runs the runs in the order of the target, without overlaps
 */
export function runsWithin(runs: readonly ValueRun[], { start, end }: ValueRange): ValueRun[] {
  let first = 0;
  for (let rest = runs.length; first < rest; ) {
    const middle = (first + rest) >> 1;
    const { to, length } = runs[middle]!;
    if (to + length <= start) first = middle + 1;
    else rest = middle;
  }
  const within: ValueRun[] = [];
  for (let index = first; index < runs.length && runs[index]!.to < end; index++) {
    const { from, to, length } = runs[index]!;
    const [begin, stop] = [Math.max(to, start), Math.min(to + length, end)];
    within.push({ from: from + begin - to, to: begin, length: stop - begin });
  }
  return within;
}

/**
 * Composes runs: returns the runs from the source of `first` to the target of `second`. The target of `first`
 * is the source of `second`.
 */
export const composedRuns = (first: readonly ValueRun[], second: readonly ValueRun[]): ValueRun[] =>
  second.flatMap(({ from, to, length }) =>
    runsWithin(first, { start: from, end: from + length }).map((run) => ({ ...run, to: run.to - from + to })),
  );

/** Copies runs of values. */
export function copyRuns(
  runs: readonly ValueRun[],
  { source, target }: { readonly source: Float32Array; readonly target: Float32Array },
): void {
  for (const { from, to, length } of runs) target.set(source.subarray(from, from + length), to);
}

/** A source range that a single read covers, and the runs within the range. */
interface Span extends ValueRange {
  readonly runs: ValueRun[];
}

// if the gap between two runs is at most this many values, it is also read, because this is faster than two
// separate reads
const mostBetween = 2 ** 14;

/** Groups runs into spans. Runs that are close together in the source share a span. */
function joinRuns(runs: readonly ValueRun[]): readonly Span[] {
  const spans: { start: number; end: number; runs: ValueRun[] }[] = [];
  for (const run of runs.toSorted((one, other) => one.from - other.from)) {
    const last = spans.at(-1);
    if (last !== undefined && run.from - last.end <= mostBetween) {
      last.runs.push(run);
      last.end = Math.max(last.end, run.from + run.length);
    } else {
      spans.push({ start: run.from, end: run.from + run.length, runs: [run] });
    }
  }
  return spans;
}

/**
 * Fills `target` with the given runs of a source array. Reads only the source ranges around the runs.
 *
 * @param options.read fills `memory` with a range of the source array
 * @param options.spare returns temporary memory of the given length, for a range that contains several runs
 */
export async function fillRuns(options: {
  readonly runs: readonly ValueRun[];
  readonly target: Float32Array;
  readonly read: (range: ValueRange, memory: Float32Array) => Promise<void>;
  readonly spare: (length: number) => Float32Array;
}): Promise<void> {
  const { runs, target, read, spare } = options;
  for (const { start, end, runs: own } of joinRuns(runs)) {
    const [first] = own;
    if (own.length === 1) {
      await read({ start, end }, target.subarray(first!.to, first!.to + end - start));
      continue;
    }
    const source = spare(end - start);
    await read({ start, end }, source);
    copyRuns(
      own.map((run) => ({ ...run, from: run.from - start })),
      { source, target },
    );
  }
}
