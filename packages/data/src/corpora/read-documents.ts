import { corpusError, type OnBadLine } from './corpus-error.js';
import { corpusFormat } from './corpus-files.js';
import { readJsonLines } from './read-json.js';
import { readParquet } from './read-parquet.js';
import { type PlainTextDocuments, readPlainText } from './read-plain-text.js';

/** A corpus file and how to read it. */
export interface ReadDocumentsOptions {
  /**
   * `.txt` (also `.text`, `.md`), `.jsonl` (also `.json`, `.ndjson`), each also with `.gz`, or `.parquet`.
   */
  readonly path: string;
  /** Key of the text in JSON lines, or its Parquet column (default "text"). */
  readonly jsonKey?: string | undefined;
  /** Defines a document in plain text (default "paragraph": blank lines separate documents). */
  readonly textDocuments?: PlainTextDocuments;
  /** Called with the bytes of the file read so far. */
  readonly onBytes?: ((bytes: number) => void) | undefined;
  /**
   * Called with the error of each line, element or row that holds no usable text, which is left out; in plain
   * text, of each line that is not UTF-8. Default: the error is thrown.
   */
  readonly onBadLine?: OnBadLine | undefined;
  /** Aborted: the stream ends with the signal's reason, also while a thread decodes Parquet. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Streams the documents of a corpus file in order, with bounded memory. Throws `MTL_DATA_CORPUS` for a file
 * that cannot be read or is damaged.
 */
export function readDocuments(options: ReadDocumentsOptions): AsyncGenerator<string, void, undefined> {
  const { path, jsonKey: key = 'text', textDocuments: documents = 'paragraph' } = options;
  const { onBytes, onBadLine, signal } = options;
  const format = corpusFormat(path);
  if (format === 'json lines') return readJsonLines({ path, key, onBytes, onBadLine, signal });
  if (format === 'plain text') return readPlainText({ path, documents, onBytes, onBadLine, signal });
  if (format === 'parquet') return readParquet({ path, key, onBytes, onBadLine, signal });
  throw corpusError({
    path,
    what: 'its name does not show its format',
    expected: 'a name in .txt, .jsonl, .json, .ndjson (each also with .gz) or .parquet',
    remedy: 'rename or convert the file',
  });
}
