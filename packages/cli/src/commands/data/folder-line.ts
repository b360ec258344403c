import { relative } from 'node:path';
import type { CorpusFiles } from '@mtl/data';

/** Returns a line about the files read of an input that is a folder; empty for a file. */
export function folderLine({ input, isFolder, files, skipped }: CorpusFiles): string {
  if (!isFolder) return '';
  const name = (path: string): string => relative(input, path);
  const read =
    files.length === 1
      ? `1 file, ${name(files[0]!)}`
      : `${files.length.toLocaleString('en-US')} files, sorted by name, ${name(files[0]!)} to ${name(files.at(-1)!)}`;
  const others =
    skipped.length === 0
      ? ''
      : `; not read: ${skipped.slice(0, 5).map(name).join(', ')}` +
        (skipped.length > 5 ? ` and ${skipped.length - 5} more` : '');
  return `${input}: ${read}${others}\n`;
}
