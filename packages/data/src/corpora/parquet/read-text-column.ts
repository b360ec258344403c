import { isUtf8 } from 'node:buffer';
import { closeSync } from 'node:fs';
import { type DataError, MtlError } from '@mtl/errors';
import { fileProblem, openRegularFile } from '../../files/open-regular-file.js';
import { corpusError, type OnBadLine, reportBadLine } from '../corpus-error.js';
import { openTextColumn } from './open-text-column.js';
import { readColumnPages, type TextPage } from './read-column-pages.js';

// A text becomes one string; V8 holds at most 512 MiB in one.
const maximumTextBytes = 1 << 28;
const replacement = '\ufffd';

/** One text of a column, and the bytes of the file read up to its page's end. */
export interface ColumnText {
  readonly text: string;
  readonly bytes: number;
}

/**
 * The texts of a column in order, with memory for one page and a dictionary. What the footer gives of rows
 * and values must be what the pages hold: a damaged file gives an error, never fewer texts. Throws
 * `MTL_DATA_CORPUS` with the row or row group.
 */
export function* readTextColumn(options: {
  readonly path: string;
  readonly key: string;
  /** Called with the error of each row without a usable text, which is left out. Default: it is thrown. */
  readonly onBadRow?: OnBadLine | undefined;
}): Generator<ColumnText, void, undefined> {
  const { path, key, onBadRow } = options;
  const { descriptor, size } = attempt(path, () => openRegularFile(path), fileProblem);
  try {
    const column = attempt(path, () => openTextColumn({ descriptor, size, path, key }), damage);
    let row = 0;
    for (const [number, chunk] of column.chunks.entries()) {
      const pages = readColumnPages({ descriptor, chunk, optional: column.optional });
      const ofGroup = (error: unknown) => damage(`row group ${number}: ${messageOf(error)}`);
      for (;;) {
        const next = attempt(path, () => pages.next(), ofGroup);
        if (next.done) break;
        const page = next.value;
        for (let i = 0; i < page.starts.length; i++, row++) {
          const text = textOf({ page, i, row, path, key });
          if (typeof text === 'string') yield { text, bytes: page.end };
          else reportBadLine(text, onBadRow);
        }
      }
    }
  } finally {
    closeSync(descriptor);
  }
}

/** The text of a row, or what is wrong with it. */
function textOf(options: {
  page: TextPage;
  i: number;
  row: number;
  path: string;
  key: string;
}): string | DataError {
  const { page, i, row, path, key } = options;
  const at = `row ${row} of column "${key}"`;
  if (page.present?.[i] === 0) {
    return corpusError({ path, what: `${at} is null`, expected: 'texts only', remedy: 'remove such rows' });
  }
  const start = page.starts[i]!;
  const end = page.ends[i]!;
  if (end - start > maximumTextBytes) {
    return corpusError({ path, what: `${at} is longer than ${maximumTextBytes} bytes` });
  }
  const text = page.bytes.toString('utf8', start, end);
  // Decoding puts U+FFFD where bytes are not UTF-8; the check itself is slower.
  if (text.includes(replacement) && !isUtf8(page.bytes.subarray(start, end))) {
    return corpusError({ path, what: `${at} is not UTF-8`, remedy: 'get the file again, or repair the row' });
  }
  return text;
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
const damage = (error: unknown): string => `is not a readable Parquet file (${messageOf(error)})`;

/** Runs a step; an error that is not a coded one becomes one that says `what`. */
function attempt<T>(path: string, step: () => T, what: (error: unknown) => string): T {
  try {
    return step();
  } catch (cause) {
    if (MtlError.isInstance(cause)) throw cause;
    throw corpusError({
      path,
      what: what(cause),
      cause,
      remedy: 'get the file again, or check how it was written',
    });
  }
}
