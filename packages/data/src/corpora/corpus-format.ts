/** How the text of a corpus file is stored. */
export type CorpusFormat = 'json lines' | 'plain text' | 'parquet';

/** The names that `corpusFormat` knows, for help and errors. */
export const corpusFileNames = '.txt, .text, .md, .jsonl, .json, .ndjson (each also with .gz) or .parquet';

/** The format that the name of a corpus file states; undefined for other names. */
export function corpusFormat(path: string): CorpusFormat | undefined {
  const name = path.toLowerCase();
  if (name.endsWith('.parquet')) return 'parquet';
  const unzipped = name.replace(/\.gz$/, '');
  if (/\.(jsonl|json|ndjson)$/.test(unzipped)) return 'json lines';
  return /\.(txt|text|md)$/.test(unzipped) ? 'plain text' : undefined;
}
