import { fileURLToPath } from 'node:url';
import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads';
import { CommunicationError, MtlError, UsageError } from '@mtl/errors';
import { isTypeScript, typescriptLoader } from '../environment/typescript-loader.js';
import type { KnownError, RankThreadData } from './rank-thread.js';

export interface InMemoryRanksOptions {
  readonly worldSize: number;
  /** The module whose default export is called on each rank: `(world, argument) => result`. */
  readonly module: URL;
  /** An argument that is passed to every rank. It must be cloneable. */
  readonly argument?: unknown;
  /** How long an operation waits for the other ranks, at most, in milliseconds. Default: 20 000. */
  readonly timeoutMs?: number;
  /**
   * A module that each thread imports first. Default: for a TypeScript module, the installed tsx; without
   * tsx, Node.js itself removes the types (version 22.18 or later).
   */
  readonly preload?: URL;
  /** Node's flags for the threads, such as export conditions. Default: the flags of this process. */
  readonly execArgv?: readonly string[];
}

/**
 * Runs ranks as worker threads of this process, connected by in-memory groups, and returns their results by
 * rank. If a rank fails, the other ranks are ended, and the function throws the failed rank's error.
 */
export async function runInMemoryRanks<Result>(options: InMemoryRanksOptions): Promise<Result[]> {
  const { worldSize, module, argument, timeoutMs = 20_000, preload, execArgv } = options;
  const ports: (MessagePort | undefined)[][] = Array.from({ length: worldSize }, () => []);
  for (let left = 0; left < worldSize; left++) {
    for (let right = left + 1; right < worldSize; right++) {
      const { port1, port2 } = new MessageChannel();
      ports[left]![right] = port1;
      ports[right]![left] = port2;
    }
  }
  const loader = isTypeScript(module.pathname)
    ? typescriptLoader(fileURLToPath(module), 'thread')
    : undefined;
  const counters = ports.map(() => new SharedArrayBuffer(4 * worldSize));
  const workers: Worker[] = [];
  try {
    const results = ports.map((own, rank) => {
      const workerData: RankThreadData = {
        rank,
        worldSize,
        module: module.href,
        preload: preload?.href,
        loader: preload === undefined ? loader : undefined,
        argument,
        timeoutMs,
        ends: {
          ports: Array.from({ length: worldSize }, (_, peer) => own[peer]),
          numMessages: counters[rank]!,
          counters,
        },
      };
      const transferList = own.filter((port) => port !== undefined);
      const worker = new Worker(new URL(threadEntry, import.meta.url), {
        workerData,
        transferList,
        ...(execArgv === undefined ? {} : { execArgv: [...execArgv] }),
      });
      workers.push(worker);
      return awaitResult<Result>(worker, rank);
    });
    return await Promise.all(results);
  } finally {
    await Promise.all(workers.map((worker) => worker.terminate()));
  }
}

// the entry is next to this file, in the sources and in the build. It is plain JavaScript, so that a thread
// can start it
const threadEntry = import.meta.url.endsWith('.ts') ? './rank-thread-entry.mjs' : './rank-thread-entry.js';

function awaitResult<Result>(worker: Worker, rank: number): Promise<Result> {
  return new Promise((resolve, reject) => {
    worker.once('message', (message: { result?: Result; error?: unknown; known?: KnownError }) => {
      if ('error' in message) reject(restoreError(message.error, message.known));
      else resolve(message.result as Result);
    });
    worker.once('error', reject);
    worker.once('exit', (code) =>
      reject(new CommunicationError('MTL_RANK_ENDED', `rank ${rank} ended with code ${code} and no result`)),
    );
  });
}

function restoreError(error: unknown, known: KnownError | undefined): unknown {
  if (known === undefined) return error;
  const { family, code, details } = known;
  const Class = { CommunicationError, UsageError }[family] ?? MtlError;
  return new Class(code, (error as Error).message, { details, cause: error });
}
