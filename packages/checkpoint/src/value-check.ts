import { CheckpointError } from '@mtl/errors';
import type { Slice } from '@mtl/kernels';
import type { Dtype } from './dtype.js';
import { type FoundValue, ValueScan } from './value-scan.js';

/** What a tensor may hold, and what an error reports about one that holds something else. */
export interface ValueCheck {
  /** Where the tensor is, before its name: `iteration 12`, a file. */
  readonly place: string;
  readonly name: string;
  /** The box of the tensor that is checked. */
  readonly slices: readonly Slice[];
  /** F32 only: the smallest magnitude that is refused, and why. Default: infinity. */
  readonly limit?: ValueLimit | undefined;
  /** What follows from it: `the checkpoint was not published`. */
  readonly outcome?: string;
  readonly remedy: string;
  /** 2 while input is checked. Default: 1. */
  readonly exitCode?: 1 | 2;
}

/** A magnitude that no value of a tensor may reach, although it is finite. */
export interface ValueLimit {
  readonly magnitude: number;
  /** The rest of the sentence "VALUE is ...": `too large for float16`. */
  readonly why: string;
}

/** The error for a value that may not be in a tensor. */
export function notFinite(
  { place, name, slices, limit, outcome, remedy, exitCode = 1 }: ValueCheck,
  { index, value }: FoundValue,
): CheckpointError {
  const position: number[] = [];
  let rest = index;
  for (const { start, end } of slices.toReversed()) {
    position.unshift(start + (rest % (end - start)));
    rest = Math.floor(rest / (end - start));
  }
  const what = Number.isFinite(value) && limit !== undefined ? `${value}, ${limit.why}` : String(value);
  const then = outcome === undefined ? '' : `; ${outcome}`;
  return new CheckpointError(
    'MTL_NOT_FINITE',
    `${place}: ${name}[${position.join(', ')}] is ${what}${then}`,
    { remedy, exitCode, details: { name, position, value } },
  );
}

/**
 * Checks the values of a tensor in memory.
 *
 * @param bytes of the box `check.slices`, row-major
 * @throws CheckpointError MTL_NOT_FINITE
 */
export function checkValues(
  bytes: Uint8Array,
  { dtype, check }: { readonly dtype: Dtype; readonly check: ValueCheck },
): void {
  const scan = new ValueScan(dtype, check.limit?.magnitude);
  scan.update(bytes);
  if (scan.found !== undefined) throw notFinite(check, scan.found);
}
