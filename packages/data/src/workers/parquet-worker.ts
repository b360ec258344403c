import { parentPort, workerData } from 'node:worker_threads';
import type { ErrorMessage } from '@mtl/errors';
import { readTextColumn } from '../corpora/parquet/read-text-column.js';
import { packWorkerError } from './pack-worker-error.js';

// Large enough that a message between threads costs nothing.
const batchCharacters = 1 << 18;
const batchTexts = 4096;

/** What the thread is started with. Each message asks for one batch more. */
export interface ParquetWorkerData {
  readonly path: string;
  readonly key: string;
}

/** The next texts, at the end fewer or none, or why there are none. */
export type ParquetReply =
  | {
      readonly texts: readonly string[];
      /** Bytes of the file read so far. */
      readonly bytes: number;
      readonly done: boolean;
    }
  | { readonly error: ErrorMessage };

const texts = readTextColumn(workerData as ParquetWorkerData);
let bytes = 0;

parentPort!.on('message', () => {
  let reply: ParquetReply;
  try {
    reply = nextBatch();
  } catch (error) {
    reply = { error: packWorkerError(error) };
  }
  parentPort!.postMessage(reply);
});

function nextBatch(): ParquetReply {
  const batch: string[] = [];
  for (let characters = 0; characters < batchCharacters && batch.length < batchTexts; ) {
    const next = texts.next();
    if (next.done) return { texts: batch, bytes, done: true };
    batch.push(next.value.text);
    characters += next.value.text.length;
    bytes = next.value.bytes;
  }
  return { texts: batch, bytes, done: false };
}
