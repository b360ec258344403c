/** Where samples come from. */
export interface SampleSource {
  /** The prefix of an indexed dataset, or what else the documents are numbered in. */
  readonly source: string;
  /** Numbers of its documents, ascending, from 0. */
  readonly documents: readonly number[];
}

/** Documents that a text names; a record names all of them. */
const mostNamed = 8;

/** Sources in words: `corpus_text_document: documents 3, 17`. */
export function sourcesText(sources: readonly SampleSource[]): string {
  return sources
    .map(({ source, documents }) => {
      const named = documents.slice(0, mostNamed).join(', ');
      const rest = documents.length - mostNamed;
      return `${source}: document${documents.length === 1 ? '' : 's'} ${named}${rest > 0 ? ` and ${rest} more` : ''}`;
    })
    .join('; ');
}
