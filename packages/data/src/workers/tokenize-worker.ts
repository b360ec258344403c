import { parentPort, workerData } from 'node:worker_threads';
import { tokenizeDocuments } from '../corpora/tokenize-documents.js';
import type { TokenArray, TokenDtype } from '../indexed/token-dtype.js';
import { createTokenizer, type TokenizerOptions } from '../tokenizers/create-tokenizer.js';
import { type ErrorMessage, packError } from './error-message.js';

/** What the thread is started with. */
export interface TokenizeWorkerData {
  readonly tokenizer: TokenizerOptions;
  readonly appendEod: boolean;
  readonly dtype: TokenDtype;
}

/** One batch of documents, by number. */
export interface TokenizeRequest {
  readonly batch: number;
  readonly texts: readonly string[];
}

/** The tokens of a batch, or why there are none. */
export type TokenizeReply =
  | { readonly batch: number; readonly tokens: TokenArray; readonly lengths: Int32Array }
  | { readonly batch: number; readonly error: ErrorMessage };

const { tokenizer: options, appendEod, dtype } = workerData as TokenizeWorkerData;
const made = createTokenizer(options);

parentPort!.on('message', async ({ batch, texts }: TokenizeRequest) => {
  try {
    const { tokens, lengths } = tokenizeDocuments({ texts, tokenizer: await made, appendEod, dtype });
    parentPort!.postMessage({ batch, tokens, lengths }, [
      tokens.buffer as ArrayBuffer,
      lengths.buffer as ArrayBuffer,
    ]);
  } catch (error) {
    parentPort!.postMessage({ batch, error: packError(error) });
  }
});
