import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { type TransferListItem, Worker } from 'node:worker_threads';
import { type ErrorMessage, packError } from '@mtl/errors';

/** This package's worker threads. Each is a separate entry point of the build. */
type WorkerName = 'corpora/tokenize-worker' | 'corpora/parquet-worker' | 'loading/batch-worker';

/**
 * Starts one of this package's worker threads. In the built package, the worker is a JavaScript file in a
 * folder next to this file. In the repository, both files are TypeScript, so the worker needs a loader.
 */
export function startWorker(options: {
  readonly name: WorkerName;
  readonly workerData: unknown;
  /** The ports in `workerData` whose ownership moves to the thread. */
  readonly transferList?: TransferListItem[];
}): Worker {
  const { name, workerData, transferList = [] } = options;
  if (!import.meta.url.endsWith('.ts')) {
    return new Worker(new URL(`./${name}.js`, import.meta.url), { workerData, transferList });
  }
  const loader = pathToFileURL(createRequire(import.meta.url).resolve('@mtl/tooling/typescript-loader')).href;
  const worker = new URL(`../${name}.ts`, import.meta.url).href;
  const start = `import('${loader}').then(() => import('${worker}'))`;
  return new Worker(start, {
    eval: true,
    workerData,
    transferList,
    execArgv: ['--conditions', '@mtl/source'],
  });
}

/** Converts a worker thread's error into a message; an unexpected error gets the code MTL_DATA_WORKER. */
export function packWorkerError(error: unknown): ErrorMessage {
  return packError(error, { name: 'DataError', code: 'MTL_DATA_WORKER' });
}
