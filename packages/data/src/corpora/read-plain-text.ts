import { type ReadLinesOptions, readLines } from './read-lines.js';

/** What counts as a document in plain text. */
export type PlainTextDocuments = 'paragraph' | 'file';

/**
 * Streams the documents of a plain text file. `paragraph`: blank lines separate documents, and a document is
 * its lines joined by newlines. `file`: the whole file is one document (which must fit in memory).
 */
export async function* readPlainText(
  options: ReadLinesOptions & { readonly documents: PlainTextDocuments },
): AsyncGenerator<string, void, undefined> {
  let lines: string[] = [];
  for await (const { text } of readLines(options)) {
    if (options.documents === 'file' || text.trim() !== '') {
      lines.push(text);
    } else if (lines.length > 0) {
      yield lines.join('\n');
      lines = [];
    }
  }
  if (lines.length > 0) yield lines.join('\n');
}
