import { nearestName } from '@mtl/errors';
import { corpusError } from './corpus-error.js';
import type { ReadLinesOptions } from './read-lines.js';

/** Streams the texts of one column of a Parquet file, a row group at a time. */
export async function* readParquet(
  options: ReadLinesOptions & { readonly key: string },
): AsyncGenerator<string, void, undefined> {
  const { path, key, onBytes } = options;
  // Loaded on demand: most corpora are not Parquet.
  const { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } = await import('hyparquet');
  const { compressors } = await import('hyparquet-compressors');
  const attempt = async <T>(run: () => Promise<T>): Promise<T> => {
    try {
      return await run();
    } catch (cause) {
      const missing = (cause as NodeJS.ErrnoException).code === 'ENOENT';
      const what = missing ? 'no such file' : `is not a readable Parquet file (${(cause as Error).message})`;
      throw corpusError({ path, what, cause });
    }
  };
  const file = await attempt(() => asyncBufferFromFile(path));
  const metadata = await attempt(() => parquetMetadataAsync(file));
  const columns = metadata.schema
    .filter((element) => (element.num_children ?? 0) === 0)
    .map((element) => element.name);
  if (!columns.includes(key)) {
    const near = nearestName(key, columns);
    throw corpusError({
      path,
      what: `has no column "${key}"`,
      expected: columns.map((name) => `"${name}"`).join(', '),
      remedy: `choose the column of the text${near === undefined ? '' : `, for example "${near}"`}`,
    });
  }
  let rowStart = 0;
  for (const group of metadata.row_groups) {
    const rowEnd = rowStart + Number(group.num_rows);
    const rows = await attempt(() =>
      parquetReadObjects({ file, metadata, compressors, columns: [key], rowStart, rowEnd }),
    );
    for (const [i, row] of rows.entries()) {
      const text: unknown = row[key];
      if (typeof text !== 'string') {
        throw corpusError({
          path,
          what: `row ${rowStart + i} of column "${key}" is not a text`,
          expected: 'texts only',
        });
      }
      yield text;
    }
    rowStart = rowEnd;
    onBytes?.(Math.round((file.byteLength * rowEnd) / Math.max(1, Number(metadata.num_rows))));
  }
}
