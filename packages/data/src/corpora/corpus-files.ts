import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { corpusError, type OnBadLine } from './corpus-error.js';
import { readJsonLines } from './read-json.js';
import { readParquet } from './read-parquet.js';
import { type PlainTextDocuments, readPlainText } from './read-plain-text.js';

/** The corpus files of an input. */
export interface CorpusFiles {
  /** The input: a file or a folder. */
  readonly input: string;
  readonly isFolder: boolean;
  /**
   * The files in the order of reading. The files of a folder are sorted by path, so that the order does not
   * depend on the file system.
   */
  readonly files: readonly string[];
  /** Files of the folder that are skipped, because their names do not belong to a corpus format. */
  readonly skipped: readonly string[];
}

/**
 * Returns the files of an input: the file itself, or all corpus files in a folder and its subfolders. Corpus
 * files have a name that `corpusFormat` knows. Names that begin with a dot are skipped, and links to folders
 * are not followed.
 *
 * @throws DataError `MTL_DATA_CORPUS` for an input that does not exist, is not a regular file, or is a folder
 *   without a corpus file.
 */
export function corpusFiles(input: string): CorpusFiles {
  const stats = statSync(input, { throwIfNoEntry: false });
  if (stats === undefined) {
    throw corpusError({ path: input, what: 'no such file or folder', remedy: 'check the path' });
  }
  if (!stats.isDirectory()) {
    if (stats.isFile()) return { input, isFolder: false, files: [input], skipped: [] };
    throw corpusError({
      path: input,
      what: 'is not a regular file',
      remedy: 'write its content to a file',
    });
  }
  const all = filesIn(input).sort((a, b) => (a < b ? -1 : 1));
  const files = all.filter((path) => corpusFormat(path) !== undefined);
  const skipped = all.filter((path) => corpusFormat(path) === undefined);
  if (files.length > 0) return { input, isFolder: true, files, skipped };
  throw corpusError({
    path: input,
    what: 'is a folder without corpus files',
    expected: `files in ${corpusFileNames}`,
    remedy: 'name another folder, or rename or convert its files',
  });
}

function filesIn(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    if (entry.name.startsWith('.')) return [];
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return filesIn(path);
    return statSync(path, { throwIfNoEntry: false })?.isFile() === true ? [path] : [];
  });
}

/** The format of the text of a corpus file. */
type CorpusFormat = 'json lines' | 'plain text' | 'parquet';

/** The file names for which `corpusFormat` has a format, for help texts and errors. */
export const corpusFileNames = '.txt, .text, .md, .jsonl, .json, .ndjson (each also with .gz) or .parquet';

/** Returns the format of a corpus file, given its name; undefined if the name belongs to no corpus format. */
function corpusFormat(path: string): CorpusFormat | undefined {
  const name = path.toLowerCase();
  if (name.endsWith('.parquet')) return 'parquet';
  const unzipped = name.replace(/\.gz$/, '');
  if (/\.(jsonl|json|ndjson)$/.test(unzipped)) return 'json lines';
  return /\.(txt|text|md)$/.test(unzipped) ? 'plain text' : undefined;
}

/** A corpus file and settings for reading it. */
export interface ReadDocumentsOptions {
  /**
   * The path of the file. Its name ends in `.parquet`, or in `.txt` (or `.text`, `.md`) or `.jsonl` (or
   * `.json`, `.ndjson`), optionally followed by `.gz`.
   */
  readonly path: string;
  /** The key of the text in JSON lines, or the Parquet column. Default: "text". */
  readonly jsonKey?: string | undefined;
  /**
   * The definition of a document in plain text. Default: "paragraph", where blank lines separate documents.
   */
  readonly textDocuments?: PlainTextDocuments;
  /** Receives the number of bytes of the file read so far. */
  readonly onBytes?: ((bytes: number) => void) | undefined;
  /**
   * Receives the error about each line, element or row without usable text, which is then skipped. In plain
   * text, a line is unusable if it is not UTF-8. Default: the error is thrown.
   */
  readonly onBadLine?: OnBadLine | undefined;
  /** Aborting this signal ends the stream with the signal's reason, even while a thread decodes Parquet. */
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
    expected: `a name in ${corpusFileNames}`,
    remedy: 'rename or convert the file',
  });
}
