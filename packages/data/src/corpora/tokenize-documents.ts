import { setImmediate } from 'node:timers/promises';
import type { Worker } from 'node:worker_threads';
import { DataError, type ErrorMessage, unpackError } from '@mtl/errors';
import type { Tokenizer, TokenizerOptions } from '@mtl/tokenizers';
import { packWorkerError, startWorker } from '../files/worker-thread.js';
import { type TokenArray, type TokenDtype, tokenDtypes } from '../indexed/token-dtype.js';
import { createSentenceSplitter, type SentenceSplitter } from './sentence-splitter.js';

/** The tokens of several documents, concatenated. */
export interface TokenizedDocuments {
  readonly tokens: TokenArray;
  /** int32: the number of tokens in each sequence; no sequence is empty. */
  readonly lengths: Int32Array;
  /**
   * int32: how many sequences each document has: its sentences if documents are split into sentences,
   * otherwise 1; 0 for a document without tokens.
   */
  readonly sequences: Int32Array;
}

/**
 * Tokenizes the given documents. If `appendEod` is true, the end-of-document token follows the last sentence
 * of every document that has tokens. Sentences without tokens are omitted.
 */
export function tokenizeDocuments(options: {
  readonly texts: readonly string[];
  readonly tokenizer: Tokenizer;
  readonly appendEod: boolean;
  readonly dtype: TokenDtype;
  /**
   * Splits a document into sentences, which become its sequences. Default: every document is a single
   * sequence, without splitting.
   */
  readonly splitSentences?: SentenceSplitter | undefined;
}): TokenizedDocuments {
  const { texts, tokenizer, appendEod, dtype, splitSentences } = options;
  const sequences = new Int32Array(texts.length);
  const lengths: number[] = [];
  const parts: ArrayLike<number>[] = [];
  let total = 0;
  for (const [i, text] of texts.entries()) {
    for (const sentence of splitSentences?.(text) ?? [text]) {
      const ids = tokenizer.encode(sentence);
      if (ids.length === 0) continue;
      checkIds(ids, tokenizer);
      parts.push(ids);
      lengths.push(ids.length);
      total += ids.length;
      sequences[i]!++;
    }
    if (!appendEod || sequences[i] === 0) continue;
    parts.push([tokenizer.eod]);
    lengths[lengths.length - 1]!++;
    total++;
  }
  const tokens = tokenDtypes[dtype].create(total) as Int32Array;
  let offset = 0;
  for (const ids of parts) {
    tokens.set(ids, offset);
    offset += ids.length;
  }
  return { tokens, lengths: Int32Array.from(lengths), sequences };
}

/**
 * Throws if an id is not below the tokenizer's vocabulary size, because the element type would silently
 * truncate it.
 */
function checkIds(ids: ArrayLike<number>, tokenizer: Tokenizer): void {
  for (let i = 0; i < ids.length; i++) {
    const id = ids[i]!;
    if (id >= 0 && id < tokenizer.vocabularySize) continue;
    throw new DataError('MTL_DATA_TOKEN_OUT_OF_VOCABULARY', `${tokenizer.name} made the token ${id}`, {
      expected: `integers from 0 to ${tokenizer.vocabularySize - 1}`,
      remedy: 'check that the files of the tokenizer belong together',
    });
  }
}

// This thread tokenizes at most this number of characters at a time. A longer text would block the event loop
// for so long that Ctrl-C would have no effect.
const mostCharactersHere = 1 << 18;

/** Settings by which documents become tokens. */
interface DocumentTokenizerOptions {
  readonly tokenizer: Tokenizer;
  /** The number of worker threads. If it is 0, this thread tokenizes all documents except long ones. */
  readonly workers: number;
  readonly appendEod: boolean;
  readonly dtype: TokenDtype;
  /** The language for splitting documents into sentences. If it is undefined, documents are not split. */
  readonly sentenceLocale: string | undefined;
  readonly signal: AbortSignal | undefined;
}

/**
 * Tokenizes batches of documents in worker threads or in this thread. This thread remains able to handle
 * signals: a batch with a long document always goes to a worker thread, which can be terminated, and the
 * event loop runs before each batch that this thread tokenizes.
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

  /** Tokenizes a batch. Rejects with a worker thread's coded error, or with the signal's reason. */
  async tokenize(texts: readonly string[]): Promise<TokenizedDocuments> {
    const { tokenizer, appendEod, dtype, workers, signal } = this.#options;
    signal?.throwIfAborted();
    // A worker thread creates the tokenizer from its options, so a tokenizer without options stays in this
    // thread.
    const isLong = tokenizer.options !== undefined && numCharacters(texts) > mostCharactersHere;
    if (workers > 0 || isLong) return (this.#pool ?? this.#startPool(1)).tokenize(texts);
    await setImmediate();
    signal?.throwIfAborted();
    return tokenizeDocuments({ texts, tokenizer, appendEod, dtype, splitSentences: this.#splitSentences });
  }

  /** Ends the threads, even during a task. */
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

/** The initial data of a thread that runs tokenize-worker.ts. */
export interface TokenizeWorkerData {
  readonly tokenizer: TokenizerOptions;
  readonly appendEod: boolean;
  readonly dtype: TokenDtype;
  /** The language for splitting documents into sentences. If it is undefined, documents are not split. */
  readonly sentenceLocale: string | undefined;
}

/** A batch of documents to tokenize. `batch` is an index that the reply repeats. */
export interface TokenizeRequest {
  readonly batch: number;
  readonly texts: readonly string[];
}

/** The tokens of a batch, or the error that prevented tokenizing it. */
export type TokenizeReply =
  | { readonly batch: number; readonly documents: TokenizedDocuments }
  | { readonly batch: number; readonly error: ErrorMessage };

type Settle = { resolve: (documents: TokenizedDocuments) => void; reject: (error: unknown) => void };

/**
 * Worker threads that tokenize batches of documents. Each batch is sent to the thread with the least pending
 * work.
 */
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

  /** Tokenizes a batch. Rejects with the worker thread's coded error. */
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

  /** Rejects all unfinished batches, and all later batches. */
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
