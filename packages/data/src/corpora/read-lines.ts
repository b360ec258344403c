import { isUtf8 } from 'node:buffer';
import { createReadStream, type ReadStream } from 'node:fs';
import { createGunzip } from 'node:zlib';
import { DataError } from '@mtl/errors';
import { fileProblem, openRegularFile } from '@mtl/errors/files';
import { corpusError, type OnBadLine, reportBadLine } from './corpus-error.js';

// The default maximum size of a line. A line becomes a string, and a string in V8 has at most 512 MiB.
const defaultMaximumLineBytes = 1 << 28;
const newline = 10;
const carriageReturn = 13;

/** A line of a text file, without its line break. */
export interface CorpusLine {
  readonly text: string;
  /** Number of the line, from 1. */
  readonly number: number;
}

/** The file to read, and the callbacks for progress and errors. */
export interface ReadLinesOptions {
  readonly path: string;
  /** Receives the number of bytes of the file read so far (compressed bytes for a .gz file). */
  readonly onBytes?: ((bytes: number) => void) | undefined;
  /**
   * The maximum size of a line in bytes, checked only for lines that span chunks of the file. Default: 256
   * MiB.
   */
  readonly maximumLineBytes?: number | undefined;
  /** Receives the error about each unusable line, which is then skipped. Default: the error is thrown. */
  readonly onBadLine?: OnBadLine | undefined;
  /** Aborting this signal ends the stream with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** True to yield only the first of several consecutive empty lines. Default: false. */
  readonly joinsEmptyLines?: boolean | undefined;
  /** True to yield consecutive usable lines as a single text, joined by newlines. Default: false. */
  readonly joinsLines?: boolean | undefined;
}

/**
 * The number of lines in a batch. An await takes as long as reading many short lines, so batches are large.
 */
const batchLines = 4096;

/**
 * Streams the lines of a UTF-8 file (decompressed if the name ends in .gz). Only one chunk and one line are
 * in memory. Throws `MTL_DATA_CORPUS` for files that cannot be read, are truncated, or are not UTF-8.
 */
export async function* readLines(options: ReadLinesOptions): AsyncGenerator<CorpusLine, void, undefined> {
  for await (const batch of readLineBatches(options)) yield* batch;
}

/** Streams the same lines as `readLines`, several at a time. */
export async function* readLineBatches(
  options: ReadLinesOptions,
): AsyncGenerator<readonly CorpusLine[], void, undefined> {
  const {
    path,
    onBadLine,
    maximumLineBytes = defaultMaximumLineBytes,
    joinsEmptyLines = false,
    joinsLines = false,
  } = options;
  let number = 0;
  let pending: Buffer[] = [];
  let pendingBytes = 0;
  /** True after a line that was too long, until the rest of the line has been skipped. */
  let isSkipping = false;
  let batch: CorpusLine[] = [];
  const take = (last: Buffer): CorpusLine | DataError | undefined => {
    number++;
    const bytes = pending.length === 0 ? last : Buffer.concat([...pending, last]);
    pending = [];
    pendingBytes = 0;
    const line = isSkipping ? undefined : decodeLine(bytes, { path, number });
    isSkipping = false;
    return line;
  };
  /**
   * Yields the lines that have been collected so far, so that they come before the error about a bad line.
   */
  function* flush(): Generator<readonly CorpusLine[], void, undefined> {
    if (batch.length > 0) yield batch;
    batch = [];
  }
  function* push(
    line: CorpusLine | DataError | undefined,
  ): Generator<readonly CorpusLine[], void, undefined> {
    if (line instanceof DataError) {
      yield* flush();
      reportBadLine(line, onBadLine);
    } else if (line !== undefined) {
      batch.push(line);
      if (batch.length === batchLines) yield* flush();
    }
  }
  for await (const chunk of readChunks(options)) {
    let start = 0;
    const last = joinsLines && !isSkipping ? chunk.lastIndexOf(newline) : -1;
    const block = last < 0 ? undefined : Buffer.concat([...pending, chunk.subarray(0, last)]);
    // a block with invalid UTF-8 is read line by line, so that the bad line can be skipped or named in the
    // error
    if (block !== undefined && isUtf8(block)) {
      const text = decodeText(block, number + 1).replaceAll(/\r(?=\n|$)/g, '');
      batch.push({ text, number: number + 1 });
      number += countLines(block);
      pending = [];
      pendingBytes = 0;
      start = last + 1;
    }
    for (let end = chunk.indexOf(newline, start); end >= 0; end = chunk.indexOf(newline, start)) {
      const line = take(chunk.subarray(start, end));
      yield* push(line);
      start = end + 1;
      if (joinsEmptyLines && line !== undefined && 'text' in line && line.text === '') {
        const next = endOfEmptyLines(chunk, start);
        number += next.count;
        start = next.end;
      }
    }
    if (start < chunk.length) {
      pending.push(chunk.subarray(start));
      pendingBytes += chunk.length - start;
    }
    yield* flush();
    if (pendingBytes > maximumLineBytes) {
      const what = `is longer than ${maximumLineBytes} bytes`;
      const remedy = 'put one document on each line';
      const tooLong = { path, line: number + 1, what, remedy, isBadLine: true };
      if (!isSkipping) reportBadLine(corpusError(tooLong), onBadLine);
      isSkipping = true;
    }
    if (isSkipping) {
      pending = [];
      pendingBytes = 0;
    }
  }
  if (pendingBytes > 0) yield* push(take(Buffer.alloc(0)));
  yield* flush();
}

/**
 * Returns the position after consecutive empty lines that begin at `start`, and how many empty lines there
 * are.
 */
function endOfEmptyLines(bytes: Buffer, start: number): { readonly end: number; readonly count: number } {
  let end = start;
  let count = 0;
  for (;;) {
    if (bytes[end] === newline) end += 1;
    else if (bytes[end] === carriageReturn && bytes[end + 1] === newline) end += 2;
    else return { end, count };
    count++;
  }
}

/** Returns a line without its line break, or an error about the line. */
function decodeLine(
  line: Buffer,
  at: { readonly path: string; readonly number: number },
): CorpusLine | DataError {
  const { path, number } = at;
  const bytes = line.at(-1) === carriageReturn ? line.subarray(0, -1) : line;
  if (!isUtf8(bytes)) {
    const remedy = 'convert the file, for example with iconv -t UTF-8';
    return corpusError({ path, line: number, what: 'is not UTF-8', remedy, isBadLine: true });
  }
  return { text: decodeText(bytes, number), number };
}

/** Decodes bytes that begin at the start of a line; removes the byte-order mark at the start of the file. */
function decodeText(bytes: Buffer, number: number): string {
  const text = bytes.toString('utf8');
  return number === 1 && text.startsWith('\ufeff') ? text.slice(1) : text;
}

function countLines(bytes: Buffer): number {
  let count = 1;
  // a loop over the bytes is used, because calling indexOf for each of many short lines takes longer
  for (let at = 0; at < bytes.length; at++) if (bytes[at] === newline) count++;
  return count;
}

async function* readChunks(options: ReadLinesOptions): AsyncGenerator<Buffer, void, undefined> {
  const { path, onBytes, signal } = options;
  const file = openStream(path);
  let bytes = 0;
  file.on('data', (chunk) => {
    bytes += chunk.length;
    onBytes?.(bytes);
  });
  const gunzip = path.endsWith('.gz') ? createGunzip({ chunkSize: 1 << 18 }) : undefined;
  // pipe() does not forward errors, so an error of the file must be passed to the decompressed stream here.
  if (gunzip !== undefined) file.on('error', (error) => gunzip.destroy(error)).pipe(gunzip);
  try {
    for await (const chunk of gunzip ?? file) {
      if (signal?.aborted) break;
      yield chunk as Buffer;
    }
  } catch (cause) {
    const zipped = (cause as NodeJS.ErrnoException).code?.startsWith('Z_')
      ? { remedy: 'the .gz file is truncated or damaged: get it again' }
      : {};
    throw corpusError({ path, what: fileProblem(cause), cause, ...zipped });
  } finally {
    file.destroy();
    gunzip?.destroy();
  }
  signal?.throwIfAborted();
}

function openStream(path: string): ReadStream {
  try {
    return createReadStream(path, { fd: openRegularFile(path).descriptor, highWaterMark: 1 << 20 });
  } catch (cause) {
    throw corpusError({ path, what: fileProblem(cause), cause });
  }
}
