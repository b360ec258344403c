import { setImmediate } from 'node:timers/promises';
import type { Worker } from 'node:worker_threads';
import { DataError, unpackError } from '@mtl/errors';
import { packWorkerError, startWorker } from '../files/worker-thread.js';
import type { TokenDtype } from '../indexed/token-dtype.js';
import type { Tokenizer } from '../tokenizers/tokenizer.js';
import { createSentenceSplitter, type SentenceSplitter } from './sentence-splitter.js';
import { type TokenizedDocuments, tokenizeDocuments } from './tokenize-documents.js';
import type { TokenizeReply, TokenizeWorkerData } from './tokenize-worker.js';

// Tokenizing more than this at once keeps a thread busy for so long that it seems deaf to Ctrl-C.
const mostCharactersHere = 1 << 18;

/** Settings by which documents become tokens. */
interface DocumentTokenizerOptions {
  readonly tokenizer: Tokenizer;
  /** Worker threads; 0 tokenizes in this thread, but for long documents. */
  readonly workers: number;
  readonly appendEod: boolean;
  readonly dtype: TokenDtype;
  /** Language of the sentences to split into; undefined for whole documents. */
  readonly sentenceLocale: string | undefined;
  readonly signal: AbortSignal | undefined;
}

/**
 * Tokenizes batches of documents in worker threads or in this one, which stays free to hear of signals: a
 * batch with a long document goes to a thread that can be ended in the middle of it, and every other one
 * waits for a turn of the event loop.
 */
export class DocumentTokenizer {
  readonly #options: DocumentTokenizerOptions;
  readonly #splitSentences: SentenceSplitter | undefined;
  #pool: TokenizerPool | undefined;
  readonly #abort = (): void => this.#pool?.abandon(this.#options.signal!.reason);

  constructor(options: DocumentTokenizerOptions) {
    const { workers, sentenceLocale, signal } = options;
    this.#options = options;
    this.#splitSentences =
      sentenceLocale === undefined ? undefined : createSentenceSplitter({ locale: sentenceLocale });
    if (workers > 0) this.#startPool(workers);
    signal?.addEventListener('abort', this.#abort);
  }

  /** Rejects with the coded error of a thread, or with the signal's reason. */
  async tokenize(texts: readonly string[]): Promise<TokenizedDocuments> {
    const { tokenizer, appendEod, dtype, workers, signal } = this.#options;
    signal?.throwIfAborted();
    // One without options cannot be made again in another thread.
    const isLong = tokenizer.options !== undefined && numCharacters(texts) > mostCharactersHere;
    if (workers > 0 || isLong) return (this.#pool ?? this.#startPool(1)).tokenize(texts);
    await setImmediate();
    signal?.throwIfAborted();
    return tokenizeDocuments({ texts, tokenizer, appendEod, dtype, splitSentences: this.#splitSentences });
  }

  /** Ends the threads, whatever they are doing. */
  async close(): Promise<void> {
    this.#options.signal?.removeEventListener('abort', this.#abort);
    await this.#pool?.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #startPool(workers: number): TokenizerPool {
    const { tokenizer, appendEod, dtype, sentenceLocale } = this.#options;
    const data = { tokenizer: tokenizer.options!, appendEod, dtype, sentenceLocale };
    this.#pool = new TokenizerPool({ workers, data });
    return this.#pool;
  }
}

function numCharacters(texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + text.length, 0);
}

type Settle = { resolve: (documents: TokenizedDocuments) => void; reject: (error: unknown) => void };

/** Worker threads that tokenize batches of documents; each batch goes to the thread with the least to do. */
class TokenizerPool {
  readonly #workers: Worker[];
  readonly #loads: number[];
  readonly #pending = new Map<number, Settle>();
  #batches = 0;
  #failure: unknown;

  constructor({ workers, data }: { workers: number; data: TokenizeWorkerData }) {
    this.#workers = Array.from({ length: workers }, () =>
      startWorker({ name: 'corpora/tokenize-worker', workerData: data }),
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
