import { parentPort, workerData } from 'node:worker_threads';
import type { DataError, ErrorMessage } from '@mtl/errors';
import { packWorkerError } from '../files/worker-thread.js';
import { readTextColumn } from './parquet/read-text-column.js';

// The number of characters in a message between threads: large enough that the cost of a message is
// negligible.
const batchCharacters = 1 << 18;
const batchTexts = 4096;

/** The initial data of the thread. Afterwards, each message to the thread requests the next batch. */
export interface ParquetWorkerData {
  readonly path: string;
  readonly key: string;
  /** True if rows without usable text are skipped and reported. */
  readonly skipBadRows: boolean;
}

/** The next texts (fewer or none at the end), or the error that prevents reading further. */
export type ParquetReply =
  | {
      readonly texts: readonly string[];
      /** The errors about the skipped rows. */
      readonly bad: readonly ErrorMessage[];
      /** The number of bytes of the file read so far. */
      readonly bytes: number;
      readonly done: boolean;
    }
  | { readonly error: ErrorMessage };

const { path, key, skipBadRows } = workerData as ParquetWorkerData;
let bad: ErrorMessage[] = [];
const onBadRow = skipBadRows ? (error: DataError) => void bad.push(packWorkerError(error)) : undefined;
const texts = readTextColumn({ path, key, onBadRow });
// the first reply reports the error. This handler only prevents an unhandled rejection
texts.catch(() => undefined);
let bytes = 0;

parentPort!.on('message', async () => {
  let reply: ParquetReply;
  try {
    reply = nextBatch(await texts);
  } catch (error) {
    reply = { error: packWorkerError(error) };
  }
  parentPort!.postMessage(reply);
});

function nextBatch(rows: Awaited<typeof texts>): ParquetReply {
  const batch: string[] = [];
  bad = [];
  for (let characters = 0; characters < batchCharacters && batch.length < batchTexts; ) {
    const next = rows.next();
    if (next.done) return { texts: batch, bad, bytes, done: true };
    batch.push(next.value.text);
    characters += next.value.text.length;
    bytes = next.value.bytes;
  }
  return { texts: batch, bad, bytes, done: false };
}
