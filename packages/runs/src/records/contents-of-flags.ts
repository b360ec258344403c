import { taskDataFingerprint } from './task-data-fingerprint.js';

/** Flags whose values name files or folders to read. Those of datasets have checksums of their own. */
const flagsOfFiles = [
  ...['tokenizer-model', 'vocab-file', 'merge-file', 'chat-template'],
  ...['validation-data', 'load-hf', 'load-lora', 'pipeline-schedule'],
];

/**
 * Checksums of what flags name, by flag, as those of datasets (see `taskDataFingerprint`). A value that names
 * nothing, such as the name of a schedule, has none.
 */
export function contentsOfFlags(flags: Readonly<Record<string, unknown>>): Readonly<Record<string, string>> {
  return Object.fromEntries(
    flagsOfFiles.flatMap((name) => {
      const checksum = checksumOf([flags[name] ?? []].flat() as readonly unknown[]);
      return checksum === undefined ? [] : [[name, checksum]];
    }),
  );
}

function checksumOf(paths: readonly unknown[]): string | undefined {
  if (paths.length === 0 || !paths.every((path) => typeof path === 'string')) return undefined;
  try {
    return paths.map((path) => taskDataFingerprint(path).sampledSha256).join(' ');
  } catch {
    // no file, or one that was removed meanwhile: the value is compared
    return undefined;
  }
}
