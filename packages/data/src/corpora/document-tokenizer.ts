import { setImmediate } from 'node:timers/promises';
import type { TokenDtype } from '../indexed/token-dtype.js';
import type { Tokenizer } from '../tokenizers/tokenizer.js';
import { createSentenceSplitter, type SentenceSplitter } from './sentence-splitter.js';
import { type TokenizedDocuments, tokenizeDocuments } from './tokenize-documents.js';
import { TokenizerPool } from './tokenizer-pool.js';

// Tokenizing more than this at once keeps a thread busy for so long that it seems deaf to Ctrl-C.
const mostCharactersHere = 1 << 18;

/** How documents become tokens. */
export interface DocumentTokenizerOptions {
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
