import type { Worker } from 'node:worker_threads';
import { DataError, unpackError } from '@mtl/errors';
import { packWorkerError } from '../workers/pack-worker-error.js';
import { startWorker } from '../workers/start-worker.js';
import type { TokenizeReply, TokenizeWorkerData } from '../workers/tokenize-worker.js';
import type { TokenizedDocuments } from './tokenize-documents.js';

type Settle = { resolve: (documents: TokenizedDocuments) => void; reject: (error: unknown) => void };

/** Worker threads that tokenize batches of documents; each batch goes to the thread with the least to do. */
export class TokenizerPool {
  readonly #workers: Worker[];
  readonly #loads: number[];
  readonly #pending = new Map<number, Settle>();
  #batches = 0;
  #failure: unknown;

  constructor({ workers, data }: { workers: number; data: TokenizeWorkerData }) {
    this.#workers = Array.from({ length: workers }, () =>
      startWorker({ name: 'tokenize-worker', workerData: data }),
    );
    this.#loads = this.#workers.map(() => 0);
    for (const [number, worker] of this.#workers.entries()) {
      worker.on('message', (reply: TokenizeReply) => this.#receive(number, reply));
      worker.on('error', (error) => this.#fail(unpackError(packWorkerError(error))));
      worker.on('exit', (code) => {
        if (this.#pending.size > 0)
          this.#fail(new DataError('MTL_DATA_WORKER', `a tokenizer thread ended (${code})`));
      });
    }
  }

  /** Tokenizes a batch; rejects with the coded error of the thread. */
  tokenize(texts: readonly string[]): Promise<TokenizedDocuments> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    const batch = this.#batches++;
    const number = this.#loads.indexOf(Math.min(...this.#loads));
    this.#loads[number]!++;
    return new Promise((resolve, reject) => {
      this.#pending.set(batch, { resolve, reject });
      this.#workers[number]!.postMessage({ batch, texts });
    });
  }

  /** Rejects all batches that are not done, and those to come. */
  abandon(reason: unknown): void {
    this.#fail(reason);
  }

  /** Ends the threads. */
  async close(): Promise<void> {
    this.#pending.clear();
    await Promise.all(this.#workers.map((worker) => worker.terminate()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #receive(number: number, reply: TokenizeReply): void {
    this.#loads[number]!--;
    const settle = this.#pending.get(reply.batch);
    this.#pending.delete(reply.batch);
    if ('error' in reply) settle?.reject(unpackError(reply.error));
    else settle?.resolve(reply.documents);
  }

  #fail(error: unknown): void {
    this.#failure = error;
    for (const settle of this.#pending.values()) settle.reject(error);
    this.#pending.clear();
  }
}
