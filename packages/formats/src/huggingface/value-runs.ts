/**
 * A run: values that are consecutive both in the source array and in the target array, in row-major order.
 */
export interface ValueRun {
  /** The position of the run's first value in the source array. */
  readonly from: number;
  /** The position of the run's first value in the target array. */
  readonly to: number;
  readonly length: number;
}

/** The values [start, end) of a row-major array. */
export interface ValueRange {
  readonly start: number;
  readonly end: number;
}

/**
 * Returns the runs of the opposite direction, with source and target exchanged, in the order of the new
 * target.
 */
export const reversedRuns = (runs: readonly ValueRun[]): readonly ValueRun[] =>
  runs
    .map(({ from, to, length }) => ({ from: to, to: from, length }))
    .toSorted((one, other) => one.to - other.to);

/**
 * Returns the runs, or the parts of runs, that fill a range of the target.
 *
 * @param runs in the order of the target, without overlaps
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

/** Composes runs: returns the runs from the source of `first` to the target of `second`. */
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

/** A range of the source array for a single read, and the runs within it. */
interface Span extends ValueRange {
  readonly runs: ValueRun[];
}

// a gap of at most this many values between two runs is also read, because this is faster than two separate
// reads
const mostBetween = 2 ** 14;

/** Merges runs that are close together in the source into spans. */
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
 * Fills `target` by runs from another array. Only the ranges around the runs are read.
 *
 * @param options.read fills memory with a range of the source array
 * @param options.spare returns temporary memory for values that are read in another order
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
