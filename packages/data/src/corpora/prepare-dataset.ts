import { rmSync, statSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { ConfigurationError, type DataError } from '@mtl/errors';
import { writeFileAtomically } from '@mtl/errors/files';
import { createTokenizer, type Tokenizer, type TokenizerOptions } from '@mtl/tokenizers';
import { type IndexedDatasetSummary, IndexedDatasetWriter } from '../indexed/indexed-dataset-writer.js';
import { refuseExistingDataset } from '../indexed/refuse-existing.js';
import { tokenDtypeForVocabulary } from '../indexed/token-dtype.js';
import { BadLines, type OnBadLine } from './corpus-error.js';
import { type CorpusFiles, corpusFiles, readDocuments } from './corpus-files.js';
import type { PlainTextDocuments } from './read-plain-text.js';
import { DocumentTokenizer, type TokenizedDocuments } from './tokenize-documents.js';

// The number of characters in a batch that is sent to a thread. It is large enough that the cost of sending
// is negligible, and small enough that all threads get work.
const threadBatchCharacters = 1 << 18;
// The number of characters in a batch for this thread. The event loop runs after each batch, so signals are
// handled within a tenth of a second.
const hereBatchCharacters = 1 << 15;
const batchDocuments = 4096;
// For smaller corpora, starting threads takes longer than tokenizing.
const smallCorpusBytes = 8 << 20;

/** The progress of a preparation. */
export interface PrepareProgress {
  readonly documents: number;
  readonly tokens: number;
  /** The number of bytes read from the input files so far, and the total number. */
  readonly bytes: number;
  readonly totalBytes: number;
}

/** Files to tokenize, and the dataset to write. */
interface PrepareDatasetOptions {
  /**
   * Corpus files and folders of corpus files, read in this order (see `readDocuments` and `corpusFiles`). If
   * any input is a folder, `{dataset prefix}.inputs.txt` lists the paths of all files in the order of
   * reading.
   */
  readonly inputs: readonly string[];
  /**
   * The dataset is `{outputPrefix}_{jsonKey}_document.bin` and `.idx`, or `..._sentence` if `splitSentences`
   * is true.
   */
  readonly outputPrefix: string;
  /** A tokenizer, or its options. Worker threads need the options. */
  readonly tokenizer: Tokenizer | TokenizerOptions;
  /** The key of the text in JSON lines, or the Parquet column. Default: "text". */
  readonly jsonKey?: string;
  /** The definition of a document in plain text. Default: "paragraph". */
  readonly textDocuments?: PlainTextDocuments;
  /** True to append the end-of-document token to every document that has tokens. */
  readonly appendEod?: boolean;
  /**
   * True if every sentence becomes a sequence, as BERT's datasets require. Default: every document becomes a
   * sequence.
   */
  readonly splitSentences?: boolean;
  /** The language of the sentences, a BCP 47 tag. Default: "en". */
  readonly sentenceLocale?: string;
  /**
   * The number of worker threads. Default: one per processor, 0 for a small corpus. If it is 0, this thread
   * tokenizes the documents. Documents of more than 262,144 characters are always tokenized in a worker
   * thread, which can be terminated.
   */
  readonly workers?: number;
  /**
   * True to skip and count lines and rows without usable text. Default: the first such line is an error, and
   * nothing is written. If all lines are unusable, an error is thrown in any case.
   */
  readonly skipBadLines?: boolean;
  /** True to replace an existing dataset with the same prefix. Default: an existing dataset is an error. */
  readonly overwrite?: boolean;
  /** Called after each batch of documents. */
  readonly onProgress?: (progress: PrepareProgress) => void;
  /**
   * Aborting this signal deletes the unfinished dataset, and the preparation fails with the signal's reason.
   */
  readonly signal?: AbortSignal;
}

/** Counts and paths of the dataset that was written. */
export interface PrepareSummary extends IndexedDatasetSummary {
  /** How many documents have no tokens. They are written as empty documents, as in Megatron. */
  readonly numEmptyDocuments: number;
  /** How many lines and rows without usable text were skipped. */
  readonly numBadLines: number;
  /** The error about the first bad line. */
  readonly firstBadLine: DataError | undefined;
  /** The files of each input, in the order of reading. */
  readonly inputs: readonly CorpusFiles[];
}

/**
 * Tokenizes corpora into a Megatron indexed dataset. For the same tokens, its bytes equal the output of
 * Megatron's preprocessing, with any number of threads. Memory is bounded by the batches in flight.
 *
 * @throws DataError MTL_DATA_EXISTS if the dataset already exists
 */
export async function prepareDataset(options: PrepareDatasetOptions): Promise<PrepareSummary> {
  const { appendEod = false, overwrite = false } = options;
  const prefix = preparedPrefix(options);
  if (!overwrite) refuseExistingDataset(prefix);
  const tokenizer =
    'encode' in options.tokenizer ? options.tokenizer : await createTokenizer(options.tokenizer);
  const inputs = inputFiles(options.inputs);
  const files = inputs.flatMap((input) => input.files);
  const totalBytes = files.reduce((sum, path) => sum + statSync(path).size, 0);
  const workers = chooseWorkers({ wanted: options.workers, tokenizer, totalBytes });
  const sentenceLocale = options.splitSentences === true ? (options.sentenceLocale ?? 'en') : undefined;
  const dtype = tokenDtypeForVocabulary(tokenizer.vocabularySize);
  const { signal } = options;
  const documents = new DocumentTokenizer({ tokenizer, workers, appendEod, dtype, sentenceLocale, signal });
  let writer: IndexedDatasetWriter | undefined;
  const progress = { documents: 0, tokens: 0, bytes: 0, totalBytes };
  let numEmptyDocuments = 0;
  const bad = new BadLines({ skip: options.skipBadLines === true });
  try {
    writer = new IndexedDatasetWriter({ prefix, dtype });
    const write = ({ tokens, lengths, sequences }: TokenizedDocuments) => {
      signal?.throwIfAborted();
      writer!.addSequencesOfDocuments({ tokens, lengths, sequences });
      progress.documents += sequences.length;
      progress.tokens += tokens.length;
      for (const count of sequences) if (count === 0) numEmptyDocuments++;
      options.onProgress?.({ ...progress });
    };
    const batches = readBatches(options, {
      files,
      batchCharacters: workers > 0 ? threadBatchCharacters : hereBatchCharacters,
      onBadLine: bad.onBadLine,
      onBytes: (bytes) => {
        progress.bytes = bytes;
      },
    });
    // each thread has two batches, one in progress and one in its queue; the results are written in the order
    // of the corpus
    const start = (texts: readonly string[]) => documents.tokenize(texts);
    await forEachInOrder({ batches, start, atMost: Math.max(1, 2 * workers), finish: write });
    signal?.throwIfAborted();
    bad.checkSomeUsable(progress.documents);
    const summary = writer.finish();
    recordInputs(`${prefix}.inputs.txt`, inputs);
    return { ...summary, numEmptyDocuments, numBadLines: bad.count, firstBadLine: bad.first, inputs };
  } finally {
    writer?.discard();
    await documents.close();
  }
}

/** Returns the prefix of the output dataset. */
export function preparedPrefix({
  outputPrefix,
  jsonKey = 'text',
  splitSentences = false,
}: Pick<PrepareDatasetOptions, 'outputPrefix' | 'jsonKey' | 'splitSentences'>): string {
  return `${outputPrefix}_${jsonKey}_${splitSentences ? 'sentence' : 'document'}`;
}

function inputFiles(inputs: readonly string[]): readonly CorpusFiles[] {
  if (inputs.length > 0) return inputs.map(corpusFiles);
  throw new ConfigurationError('MTL_DATA_NO_INPUT', 'no input files are given', {
    expected: 'one corpus file or folder, or more',
  });
}

/**
 * Writes the list of the files that were read, if any input is a folder. Otherwise deletes the list of an
 * earlier dataset.
 */
function recordInputs(path: string, inputs: readonly CorpusFiles[]): void {
  if (!inputs.some(({ isFolder }) => isFolder)) {
    rmSync(path, { force: true });
    return;
  }
  const lines = inputs.flatMap(({ files }) => files.map((file) => `${file}\n`));
  writeFileAtomically(path, lines);
}

function chooseWorkers(options: {
  wanted: number | undefined;
  tokenizer: Tokenizer;
  totalBytes: number;
}): number {
  const { wanted, tokenizer, totalBytes } = options;
  if (wanted !== undefined && (!Number.isInteger(wanted) || wanted < 0)) {
    throw new ConfigurationError('MTL_DATA_WORKERS', `${wanted} workers are not possible`, {
      expected: '0 or more',
    });
  }
  if (tokenizer.options === undefined) {
    if ((wanted ?? 0) === 0) return 0;
    throw new ConfigurationError(
      'MTL_DATA_WORKERS',
      `${tokenizer.name} cannot be created again in worker threads`,
      {
        remedy: 'pass workers: 0, or a tokenizer that createTokenizer makes',
      },
    );
  }
  return wanted ?? (totalBytes < smallCorpusBytes ? 0 : availableParallelism());
}

/** Yields the documents of all inputs in batches. */
async function* readBatches(
  options: PrepareDatasetOptions,
  reading: {
    readonly files: readonly string[];
    readonly batchCharacters: number;
    readonly onBadLine: OnBadLine | undefined;
    readonly onBytes: (bytes: number) => void;
  },
): AsyncGenerator<string[], void, undefined> {
  const { jsonKey = 'text', textDocuments = 'paragraph', signal } = options;
  const { files, batchCharacters, onBadLine, onBytes } = reading;
  let batch: string[] = [];
  let characters = 0;
  let before = 0;
  for (const path of files) {
    const documents = readDocuments({
      path,
      jsonKey,
      textDocuments,
      onBadLine,
      signal,
      onBytes: (bytes) => onBytes(before + bytes),
    });
    for await (const text of documents) {
      batch.push(text);
      characters += text.length;
      if (characters < batchCharacters && batch.length < batchDocuments) continue;
      yield batch;
      batch = [];
      characters = 0;
    }
    before += statSync(path).size;
    onBytes(before);
  }
  if (batch.length > 0) yield batch;
}

/** Starts up to `atMost` items in advance, and finishes the items in order. */
async function forEachInOrder<I, O>(options: {
  batches: AsyncIterable<I>;
  start: (item: I) => Promise<O>;
  atMost: number;
  finish: (result: O) => void;
}): Promise<void> {
  const { batches, start, atMost, finish } = options;
  const underWay: Promise<O>[] = [];
  for await (const batch of batches) {
    const started = start(batch);
    // the failure is handled when the item is finished; until then, this handler prevents an unhandled
    // rejection
    started.catch(() => undefined);
    underWay.push(started);
    if (underWay.length >= atMost) finish(await underWay.shift()!);
  }
  while (underWay.length > 0) finish(await underWay.shift()!);
}
