import { parentPort, workerData } from 'node:worker_threads';
import { createTokenizer } from '@mtl/tokenizers';
import { packWorkerError } from '../files/worker-thread.js';
import { createSentenceSplitter } from './sentence-splitter.js';
import {
  type TokenizeReply,
  type TokenizeRequest,
  type TokenizeWorkerData,
  tokenizeDocuments,
} from './tokenize-documents.js';

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
