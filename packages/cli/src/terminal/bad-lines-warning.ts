import type { DataError } from '@mtl/errors';

/** Says how many lines and rows --skip-bad-lines left out, and why; nothing where there are none. */
export function warnOfBadLines({
  count,
  first,
}: {
  readonly count: number;
  readonly first: DataError | undefined;
}): void {
  if (first === undefined) return;
  const left = count === 1 ? '1 line or row is left out' : `${count} lines or rows are left out; the first`;
  process.stderr.write(`warning[MTL_DATA_BAD_LINES]: ${left}: ${first.message}\n`);
}
