import { constants } from 'node:buffer';
import { corpusError } from './corpus-error.js';
import { type ReadLinesOptions, readLines } from './read-lines.js';

/** Definitions of a document in plain text. */
export type PlainTextDocuments = 'paragraph' | 'file';

interface ReadPlainTextOptions extends ReadLinesOptions {
  readonly documents: PlainTextDocuments;
  /** Characters (UTF-16 units) of a document (default: what a string of Node can hold, 512 Mi). */
  readonly maximumCharacters?: number | undefined;
}

/**
 * Streams the documents of a plain text file. `paragraph`: blank lines separate documents, and a document is
 * its lines joined by newlines. `file`: the whole file is one document.
 *
 * @throws DataError MTL_DATA_CORPUS naming the line where a document begins that is too long
 */
export async function* readPlainText(options: ReadPlainTextOptions): AsyncGenerator<string, void, undefined> {
  const { path, documents, maximumCharacters = constants.MAX_STRING_LENGTH } = options;
  let lines: string[] = [];
  let characters = 0;
  let first = 1;
  for await (const { text, number } of readLines(options)) {
    if (documents === 'file' || text.trim() !== '') {
      if (lines.length === 0) first = number;
      lines.push(text);
      characters += text.length + 1;
      if (characters - 1 > maximumCharacters) {
        throw corpusError({ path, line: first, ...tooLong(documents, maximumCharacters) });
      }
    } else if (lines.length > 0) {
      yield lines.join('\n');
      lines = [];
      characters = 0;
    }
  }
  if (lines.length > 0) yield lines.join('\n');
}

function tooLong(documents: PlainTextDocuments, maximum: number) {
  const most = `at most ${maximum} characters in a document`;
  return documents === 'file'
    ? {
        what: `the file is one document of more than ${maximum} characters`,
        expected: most,
        remedy: 'divide the file, or read its paragraphs as documents',
      }
    : {
        what: `begins a document of more than ${maximum} characters without a blank line`,
        expected: `${most}: blank lines separate documents`,
        remedy: 'separate them by blank lines; where each line is a document, sed G FILE does',
      };
}
