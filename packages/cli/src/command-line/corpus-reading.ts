import { relative } from 'node:path';
import type { CorpusFiles } from '@mtl/data';
import { changedError, type DataError, MtlError } from '@mtl/errors';
import { Option } from 'commander';

/** Returns the flag --skip-bad-lines, for commands that read corpora. */
export const skipBadLinesOption = (): Option =>
  new Option('--skip-bad-lines', 'Leaves out lines and rows that hold no usable text, and counts them.');

/**
 * Prints a warning with the number of lines and rows that --skip-bad-lines left out, and the reasons. Prints
 * nothing if no line was left out.
 */
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

/**
 * Returns a line for the user about the files that were read in a folder; an empty string if the input is a
 * file.
 */
export function folderLine({ input, isFolder, files, skipped }: CorpusFiles): string {
  if (!isFolder) return '';
  const name = (path: string): string => relative(input, path);
  const read =
    files.length === 1
      ? `1 file, ${name(files[0]!)}`
      : `${files.length.toLocaleString('en-US')} files, sorted by name, ${name(files[0]!)} to ${name(files.at(-1)!)}`;
  const others =
    skipped.length === 0
      ? ''
      : `; not read: ${skipped.slice(0, 5).map(name).join(', ')}` +
        (skipped.length > 5 ? ` and ${skipped.length - 5} more` : '');
  return `${input}: ${read}${others}\n`;
}

/** The command's flags that the remedies from `inWordsOfFlags` mention. */
interface CorpusFlags {
  /** The flag with which the command names the JSON key of the text. */
  readonly keyFlag: '--json-key' | '--json-keys';
  /** True if --skip-bad-lines was given. */
  readonly skipsBadLines: boolean;
}

/**
 * Adds flags to the remedy of a corpus error: the flag that names the JSON key of the text, or
 * --skip-bad-lines if the error is about a line or row that can be left out. Returns all other errors
 * unchanged.
 */
export function inWordsOfFlags(error: unknown, { keyFlag, skipsBadLines }: CorpusFlags): unknown {
  if (!MtlError.isInstance(error) || error.code !== 'MTL_DATA_CORPUS') return error;
  const { keys, nearestKey, isBadLine } = error.details as CorpusErrorDetails;
  const remedies = [
    keys === undefined
      ? error.remedy
      : `name what holds the text: ${keyFlag} ${nearestKey ?? keys[0] ?? 'KEY'}`,
    isBadLine === true && !skipsBadLines
      ? 'or leave out all such lines and rows with --skip-bad-lines'
      : undefined,
  ].filter((text) => text !== undefined);
  // if no flag helps, the error is returned unchanged
  return remedies.length === 0
    ? error
    : changedError(error, { remedy: remedies.join('; ').replace(/^or /, '') });
}

interface CorpusErrorDetails {
  readonly keys?: readonly string[];
  readonly nearestKey?: string;
  readonly isBadLine?: boolean;
}
