/** Values that are consecutive in two row-major arrays. */
export interface ValueRun {
  /** The position of the first value in the array that is read. */
  readonly from: number;
  /** The position of the first value in the array that is filled. */
  readonly to: number;
  readonly length: number;
}

/** The values [start, end) of a row-major array. */
export interface ValueRange {
  readonly start: number;
  readonly end: number;
}

/** Returns the opposite direction of runs, in the order of the array that it fills. */
export const reversedRuns = (runs: readonly ValueRun[]): readonly ValueRun[] =>
  runs
    .map(({ from, to, length }) => ({ from: to, to: from, length }))
    .toSorted((one, other) => one.to - other.to);

/**
 * Returns the parts of runs that fill a range.
 *
 * @param runs in the order of the array that they fill, without overlaps
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

/** Returns the runs from the array that `first` reads to the array that `second` fills. */
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

/** Consecutive values of the array that is read, and the runs among them. */
interface Span extends ValueRange {
  readonly runs: ValueRun[];
}

// values between two runs that are read too, because another read would take longer
const mostBetween = 2 ** 14;

/** Merges runs that are close to each other in the array that is read. */
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
 * Fills an array from another one. Only the ranges around the runs are read.
 *
 * @param options.read fills memory with a range of the other array
 * @param options.spare returns memory for values that are read in another order
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
