import { isUtf8 } from 'node:buffer';
import { createReadStream, type ReadStream } from 'node:fs';
import { createGunzip } from 'node:zlib';
import { fileProblem, openRegularFile } from '../files/regular-files.js';
import { corpusError, type OnBadLine, reportBadLine } from './corpus-error.js';

// A line becomes one string; V8 holds at most 512 MiB in one.
const defaultMaximumLineBytes = 1 << 28;
const newline = 10;
const carriageReturn = 13;

/** One line of a text file, without its end. */
export interface CorpusLine {
  readonly text: string;
  /** Counted from 1. */
  readonly number: number;
}

/** The start of reading, and the callback for its progress. */
export interface ReadLinesOptions {
  readonly path: string;
  /** Called with the bytes of the file read so far (compressed ones in a .gz file). */
  readonly onBytes?: ((bytes: number) => void) | undefined;
  /** Bytes of a line, checked for those that go on beyond a chunk of the file (default: 256 Mi). */
  readonly maximumLineBytes?: number | undefined;
  /** Called with the error of each line that cannot be used, which is left out. Default: it is thrown. */
  readonly onBadLine?: OnBadLine | undefined;
  /** Aborted: the stream ends with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Streams the lines of a UTF-8 file (gunzipped when it ends in .gz), with memory for one chunk and one line.
 * Throws `MTL_DATA_CORPUS` for files that cannot be read, are truncated, or are not UTF-8.
 */
export async function* readLines(options: ReadLinesOptions): AsyncGenerator<CorpusLine, void, undefined> {
  const { path, onBadLine, maximumLineBytes = defaultMaximumLineBytes } = options;
  let number = 0;
  let pending: Buffer[] = [];
  let pendingBytes = 0;
  /** True after a line that was too long: its rest is passed over. */
  let isSkipping = false;
  const take = (last: Buffer): CorpusLine | undefined => {
    number++;
    const bytes = pending.length === 0 ? last : Buffer.concat([...pending, last]);
    pending = [];
    pendingBytes = 0;
    if (!isSkipping) return lineOf(bytes, { path, number, onBadLine });
    isSkipping = false;
    return undefined;
  };
  for await (const chunk of readChunks(options)) {
    let start = 0;
    for (let end = chunk.indexOf(newline); end >= 0; end = chunk.indexOf(newline, start)) {
      const line = take(chunk.subarray(start, end));
      if (line !== undefined) yield line;
      start = end + 1;
    }
    if (start < chunk.length) {
      pending.push(chunk.subarray(start));
      pendingBytes += chunk.length - start;
    }
    if (pendingBytes > maximumLineBytes) {
      const what = `is longer than ${maximumLineBytes} bytes`;
      const remedy = 'put one document on each line';
      if (!isSkipping) reportBadLine(corpusError({ path, line: number + 1, what, remedy }), onBadLine);
      isSkipping = true;
    }
    if (isSkipping) {
      pending = [];
      pendingBytes = 0;
    }
  }
  const line = pendingBytes > 0 ? take(Buffer.alloc(0)) : undefined;
  if (line !== undefined) yield line;
}

/** Returns a line without its end; undefined for one that is left out. */
function lineOf(
  line: Buffer,
  at: { readonly path: string; readonly number: number; readonly onBadLine: OnBadLine | undefined },
): CorpusLine | undefined {
  const { path, number, onBadLine } = at;
  const bytes = line.at(-1) === carriageReturn ? line.subarray(0, -1) : line;
  if (!isUtf8(bytes)) {
    const remedy = 'convert the file, for example with iconv -t UTF-8';
    reportBadLine(corpusError({ path, line: number, what: 'is not UTF-8', remedy }), onBadLine);
    return undefined;
  }
  const text = bytes.toString('utf8');
  return { text: number === 1 && text.startsWith('\ufeff') ? text.slice(1) : text, number };
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
  // pipe() does not carry errors over; a file that cannot be read must end the unzipped stream too.
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
