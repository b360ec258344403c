import { adapterStartFlags } from '@mtl/configuration/internal';
import { taskDataFingerprint } from './fingerprints.js';

/** Flags of files that decide which tokens a run gets. */
export const tokenizerFiles = ['tokenizer-model', 'vocab-file', 'merge-file', 'chat-template'] as const;

/**
 * Flags of files that a run reads whole. Flags of datasets are not among them: datasets have own checksums.
 */
const flagsOfFiles: readonly string[] = [...tokenizerFiles, 'validation-data', 'pipeline-schedule'];

/** Flags of models, which are told apart by samples of their files. */
const flagsOfModels = ['load-hf', ...adapterStartFlags];

/** Checksums of the files and folders that flags name, by flag. */
export interface FileContents {
  /** Covers samples of them. */
  readonly contents: Readonly<Record<string, string>>;
  /** Covers all their bytes, where those are read. */
  readonly contentsSha256: Readonly<Record<string, string>>;
}

/**
 * Returns checksums of what flags name, as those of datasets (see `taskDataFingerprint`): samples of all, and
 * all bytes of the files that a run reads whole. A value that names nothing, such as the name of a schedule,
 * has none.
 */
export function contentsOfFlags(flags: Readonly<Record<string, unknown>>): FileContents {
  const contents: Record<string, string> = {};
  const contentsSha256: Record<string, string> = {};
  for (const name of [...flagsOfFiles, ...flagsOfModels]) {
    const isWhole = flagsOfFiles.includes(name);
    const found = fingerprintsOf([flags[name] ?? []].flat() as readonly unknown[], { isWhole });
    if (found === undefined) continue;
    contents[name] = found.map(({ sampledSha256 }) => sampledSha256).join(' ');
    // a pipe has none
    if (found.every(({ sha256 }) => sha256 !== undefined))
      contentsSha256[name] = found.map(({ sha256 }) => sha256).join(' ');
  }
  return { contents, contentsSha256 };
}

function fingerprintsOf(paths: readonly unknown[], how: { readonly isWhole: boolean }) {
  if (paths.length === 0 || !paths.every((path) => typeof path === 'string')) return undefined;
  try {
    return paths.map((path) => taskDataFingerprint(path, how));
  } catch {
    // no file, or one that was removed meanwhile: the value is compared
    return undefined;
  }
}
