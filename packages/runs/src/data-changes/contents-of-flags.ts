import { adapterStartFlags } from '@mtl/configuration/internal';
import { taskDataFingerprint } from './fingerprints.js';

/** The flags whose files determine how a run tokenizes text. */
export const tokenizerFiles = ['tokenizer-model', 'vocab-file', 'merge-file', 'chat-template'] as const;

/**
 * The flags for files that a run reads completely. Flags for datasets are not included, because datasets have
 * their own checksums.
 */
const flagsOfFiles: readonly string[] = [...tokenizerFiles, 'validation-data', 'pipeline-schedule'];

/**
 * The flags that name a model. A model's files are large, so only some ranges of their bytes are compared.
 */
const flagsOfModels = ['load-hf', ...adapterStartFlags];

/** Checksums of the files and folders that the flags name, by flag. */
export interface FileContents {
  /** Checksums of samples of the files. */
  readonly contents: Readonly<Record<string, string>>;
  /** Checksums of all bytes, only for files that are read completely. */
  readonly contentsSha256: Readonly<Record<string, string>>;
}

/**
 * Returns checksums of the files and folders that the flags name. Every file has a checksum of sampled bytes,
 * and files that a run reads completely also have a checksum of all bytes. Both are computed as for datasets
 * (see `taskDataFingerprint`). A value that is not a path, such as the name of a schedule, has no checksum.
 */
export function contentsOfFlags(flags: Readonly<Record<string, unknown>>): FileContents {
  const contents: Record<string, string> = {};
  const contentsSha256: Record<string, string> = {};
  for (const name of [...flagsOfFiles, ...flagsOfModels]) {
    const isWhole = flagsOfFiles.includes(name);
    const found = computeFingerprints([flags[name] ?? []].flat() as readonly unknown[], { isWhole });
    if (found === undefined) continue;
    contents[name] = found.map(({ sampledSha256 }) => sampledSha256).join(' ');
    // a pipe has no checksum
    if (found.every(({ sha256 }) => sha256 !== undefined))
      contentsSha256[name] = found.map(({ sha256 }) => sha256).join(' ');
  }
  return { contents, contentsSha256 };
}

function computeFingerprints(paths: readonly unknown[], how: { readonly isWhole: boolean }) {
  if (paths.length === 0 || !paths.every((path) => typeof path === 'string')) return undefined;
  try {
    return paths.map((path) => taskDataFingerprint(path, how));
  } catch {
    // the path is not a file, or the file was removed in the meantime, so only the flag's value can be
    // compared
    return undefined;
  }
}
