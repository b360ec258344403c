import { constants } from 'node:buffer';
import { corpusError } from './corpus-error.js';
import { type ReadLinesOptions, readLineBatches } from './read-lines.js';

/** Definitions of a document in plain text. */
export type PlainTextDocuments = 'paragraph' | 'file';

interface ReadPlainTextOptions extends ReadLinesOptions {
  readonly documents: PlainTextDocuments;
  /**
   * The maximum number of characters (UTF-16 units) in a document. Default: the limit of a string in Node,
   * 512 Mi.
   */
  readonly maximumCharacters?: number | undefined;
}

/**
 * Streams the documents of a plain text file. If `documents` is `paragraph`, blank lines separate documents,
 * and the lines of a document are joined by newlines. If it is `file`, the whole file is one document.
 *
 * @throws DataError MTL_DATA_CORPUS, which names the first line of a document that is too long
 */
export async function* readPlainText(options: ReadPlainTextOptions): AsyncGenerator<string, void, undefined> {
  const { path, documents, maximumCharacters = constants.MAX_STRING_LENGTH } = options;
  const document = new LinesOfDocument();
  const joining = documents === 'file' ? { joinsLines: true } : { joinsEmptyLines: true };
  let first = 1;
  for await (const batch of readLineBatches({ ...options, ...joining })) {
    for (const { text, number } of batch) {
      if (documents === 'file' || text.trim() !== '') {
        if (document.isEmpty) first = number;
        document.add(text);
        if (document.characters > maximumCharacters) {
          throw corpusError({ path, line: first, ...tooLong(documents, maximumCharacters) });
        }
      } else if (!document.isEmpty) {
        yield document.take();
      }
    }
  }
  if (!document.isEmpty) yield document.take();
}

/**
 * The number of lines that are joined into a block at a time. An array has at most about 100 million
 * elements, and a document can have more lines.
 */
const mostLinesApart = 1 << 16;

/** The lines of a document, joined by newlines. */
class LinesOfDocument {
  #parts: string[] = [];
  #lines: string[] = [];
  #characters = 0;

  get isEmpty(): boolean {
    return this.#lines.length === 0 && this.#parts.length === 0;
  }

  get characters(): number {
    return this.#characters - 1;
  }

  add(line: string): void {
    if (this.#lines.length === mostLinesApart) {
      this.#parts.push(this.#lines.join('\n'));
      this.#lines = [];
    }
    this.#lines.push(line);
    this.#characters += line.length + 1;
  }

  take(): string {
    const text = [...this.#parts, this.#lines.join('\n')].join('\n');
    this.#parts = [];
    this.#lines = [];
    this.#characters = 0;
    return text;
  }
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
