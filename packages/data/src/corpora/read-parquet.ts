import { DataError, unpackError } from '@mtl/errors';
import { packWorkerError, startWorker } from '../files/worker-thread.js';
import type { ParquetReply, ParquetWorkerData } from './parquet-worker.js';
import type { ReadLinesOptions } from './read-lines.js';

/**
 * Streams the texts of a Parquet file's column. A worker thread decodes batches in advance, so that this
 * thread can handle signals. The worker ends when the generator ends.
 */
export async function* readParquet(
  options: ReadLinesOptions & { readonly key: string },
): AsyncGenerator<string, void, undefined> {
  const { path, key, onBytes, onBadLine, signal } = options;
  signal?.throwIfAborted();
  const workerData: ParquetWorkerData = { path, key, skipBadRows: onBadLine !== undefined };
  const worker = startWorker({ name: 'corpora/parquet-worker', workerData });
  let abandon = (_reason: unknown): void => {};
  const failed = new Promise<never>((_resolve, reject) => {
    abandon = reject;
  });
  failed.catch(() => undefined);
  const abort = (): void => abandon(signal!.reason);
  signal?.addEventListener('abort', abort);
  worker.on('error', (error) => abandon(unpackError(packWorkerError(error))));
  worker.on('exit', (code) =>
    abandon(new DataError('MTL_DATA_WORKER', `${path}: the thread that decodes it ended (${code})`)),
  );
  const ask = (): Promise<ParquetReply> => {
    const reply = new Promise<ParquetReply>((resolve) => worker.once('message', resolve));
    worker.postMessage(undefined);
    return Promise.race([reply, failed]);
  };
  try {
    let next = ask();
    for (;;) {
      const reply = await next;
      if ('error' in reply) throw unpackError(reply.error);
      if (!reply.done) {
        next = ask();
        next.catch(() => undefined);
      }
      onBytes?.(reply.bytes);
      for (const error of reply.bad) onBadLine?.(unpackError(error) as DataError);
      yield* reply.texts;
      if (reply.done) return;
    }
  } finally {
    signal?.removeEventListener('abort', abort);
    await worker.terminate();
  }
}
