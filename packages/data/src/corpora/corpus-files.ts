import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { corpusError } from './corpus-error.js';

/** The files that an input names. */
export interface CorpusFiles {
  /** The input: a file or a folder. */
  readonly input: string;
  readonly isFolder: boolean;
  /** In the order in which they are read: of a folder sorted by their paths, whatever the file system. */
  readonly files: readonly string[];
  /** Files of the folder whose names state no corpus format: they are not read. */
  readonly skipped: readonly string[];
}

/**
 * Returns the files of an input: the file itself, or the corpus files (whose names `corpusFormat` knows)
 * in a folder and the folders in it. Names that begin with a dot are left out, and links to folders are not
 * followed.
 *
 * @throws DataError `MTL_DATA_CORPUS` for an input that is missing, no regular file, or a folder without a
 *   corpus file.
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

/** The names that `corpusFormat` knows, for help and errors. */
export const corpusFileNames = '.txt, .text, .md, .jsonl, .json, .ndjson (each also with .gz) or .parquet';

/** Returns the format that the name of a corpus file states; undefined for other names. */
export function corpusFormat(path: string): CorpusFormat | undefined {
  const name = path.toLowerCase();
  if (name.endsWith('.parquet')) return 'parquet';
  const unzipped = name.replace(/\.gz$/, '');
  if (/\.(jsonl|json|ndjson)$/.test(unzipped)) return 'json lines';
  return /\.(txt|text|md)$/.test(unzipped) ? 'plain text' : undefined;
}
