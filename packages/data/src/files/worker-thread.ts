import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { type TransferListItem, Worker } from 'node:worker_threads';
import { type ErrorMessage, packError } from '@mtl/errors';

/** The worker threads of this package, which are separate entry points of the build. */
type WorkerName = 'corpora/tokenize-worker' | 'corpora/parquet-worker' | 'loading/batch-worker';

/**
 * Starts a worker thread of this package. In the built package, the worker is a JavaScript file in a folder
 * next to this code. In the repository, both files are TypeScript, and the worker needs a loader.
 */
export function startWorker(options: {
  readonly name: WorkerName;
  readonly workerData: unknown;
  /** Ports in `workerData` that the thread will own. */
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

/** Packs an error of a worker thread for a message; an unexpected error gets the code MTL_DATA_WORKER. */
export function packWorkerError(error: unknown): ErrorMessage {
  return packError(error, { name: 'DataError', code: 'MTL_DATA_WORKER' });
}
