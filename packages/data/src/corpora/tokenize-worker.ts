import { parentPort, workerData } from 'node:worker_threads';
import type { ErrorMessage } from '@mtl/errors';
import { packWorkerError } from '../files/worker-thread.js';
import type { TokenDtype } from '../indexed/token-dtype.js';
import { createTokenizer } from '../tokenizers/create-tokenizer.js';
import type { TokenizerOptions } from '../tokenizers/tokenizer.js';
import { createSentenceSplitter } from './sentence-splitter.js';
import { type TokenizedDocuments, tokenizeDocuments } from './tokenize-documents.js';

/** Data that the thread starts with. */
export interface TokenizeWorkerData {
  readonly tokenizer: TokenizerOptions;
  readonly appendEod: boolean;
  readonly dtype: TokenDtype;
  /** Language of the sentences to split into; undefined for whole documents. */
  readonly sentenceLocale: string | undefined;
}

/** One batch of documents, by number. */
interface TokenizeRequest {
  readonly batch: number;
  readonly texts: readonly string[];
}

/** The tokens of a batch, or why there are none. */
export type TokenizeReply =
  | { readonly batch: number; readonly documents: TokenizedDocuments }
  | { readonly batch: number; readonly error: ErrorMessage };

const { tokenizer: options, appendEod, dtype, sentenceLocale } = workerData as TokenizeWorkerData;
const splitSentences =
  sentenceLocale === undefined ? undefined : createSentenceSplitter({ locale: sentenceLocale });
const made = createTokenizer(options);

parentPort!.on('message', async ({ batch, texts }: TokenizeRequest) => {
  try {
    const tokenizer = await made;
    const documents = tokenizeDocuments({ texts, tokenizer, appendEod, dtype, splitSentences });
    const { tokens, lengths, sequences } = documents;
    parentPort!.postMessage({ batch, documents } satisfies TokenizeReply, [
      tokens.buffer as ArrayBuffer,
      lengths.buffer as ArrayBuffer,
      sequences.buffer as ArrayBuffer,
    ]);
  } catch (error) {
    parentPort!.postMessage({ batch, error: packWorkerError(error) });
  }
});
