import { existsSync } from 'node:fs';
import { mkdir, readFile, rm, statfs, symlink, writeFile } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';
import { CheckpointError } from '@mtl/errors';
import { renameFile } from '@mtl/errors/files';
import { sizeText } from '../size-text.js';

/**
 * The contents of CACHEDIR.TAG, which makes backup programs skip a folder (see https://bford.info/cachedir/).
 */
const cacheTag = 'Signature: 8a477f597d28d172789f06886806bc55\n';

/**
 * The folder of one model in the cache that Hugging Face's tools share:
 *
 * - `blobs/ETAG`: the contents of a file. The name is its hash: SHA-256 for large files, otherwise Git's
 *   SHA-1
 * - `snapshots/COMMIT/FILE`: relative links to the blobs
 * - `refs/REVISION`: the commit to which a branch or tag pointed when it was last requested
 *
 * https://huggingface.co/docs/huggingface_hub/guides/manage-cache
 */
export class HubCache {
  readonly root: string;
  /** The folder of the model. */
  readonly directory: string;

  /**
   * @param root the folder of the whole cache
   * @param name `org/name`
   */
  constructor(root: string, name: string) {
    this.root = root;
    this.directory = join(root, `models--${name.replaceAll('/', '--')}`);
  }

  blobPath(etag: string): string {
    return join(this.directory, 'blobs', etag);
  }

  hasBlob(etag: string): boolean {
    return existsSync(this.blobPath(etag));
  }

  /** Returns the folder that contains the files of a commit, in the form of a transformers directory. */
  snapshotPath(commit: string): string {
    return join(this.directory, 'snapshots', commit);
  }

  /** Returns true if a commit's file exists and its contents have not been deleted. */
  has(commit: string, file: string): boolean {
    return existsSync(join(this.snapshotPath(commit), file));
  }

  /**
   * Returns the commit to which a revision pointed when it was last requested; undefined if it has never been
   * requested.
   */
  async readRef(revision: string): Promise<string | undefined> {
    try {
      const commit = (await readFile(join(this.directory, 'refs', revision), 'utf8')).trim();
      return /^[0-9a-f]{40}$/.test(commit) ? commit : undefined;
    } catch {
      return undefined;
    }
  }

  /** Stores the commit to which a revision points. @throws CheckpointError MTL_HUB_CACHE */
  async writeRef(revision: string, commit: string): Promise<void> {
    const path = join(this.directory, 'refs', revision);
    if ((await this.readRef(revision)) === commit) return;
    await this.#writing(async () => {
      await mkdir(dirname(path), { recursive: true });
      // written under a temporary name and renamed, so that no process reads an incomplete file
      const aside = `${path}.${process.pid}.tmp`;
      await writeFile(aside, commit);
      await renameFile(aside, path);
    });
  }

  /** Creates the folder for blobs. @throws CheckpointError MTL_HUB_CACHE */
  async open(): Promise<void> {
    await this.#writing(async () => {
      await mkdir(join(this.directory, 'blobs'), { recursive: true });
      await writeFile(join(this.root, 'CACHEDIR.TAG'), cacheTag, { flag: 'wx' }).catch(() => {});
    });
  }

  /**
   * Makes a commit's file a link to its contents. If the file system does not support links, the contents are
   * moved to the file's path, as in huggingface_hub.
   *
   * @throws CheckpointError MTL_HUB_CACHE
   */
  async link(
    commit: string,
    { file, etag }: { readonly file: string; readonly etag: string },
  ): Promise<void> {
    const path = join(this.snapshotPath(commit), file);
    const blob = this.blobPath(etag);
    await this.#writing(async () => {
      await mkdir(dirname(path), { recursive: true });
      await rm(path, { force: true });
      try {
        await symlink(relative(dirname(path), blob), path);
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException;
        if (code === 'EEXIST') return; // another process has just created it
        if (code !== 'EPERM' && code !== 'ENOSYS' && code !== 'EOPNOTSUPP') throw error;
        await renameFile(blob, path);
      }
    });
  }

  /** Throws if there is not enough space for `neededBytes`. @throws CheckpointError MTL_HUB_DISK */
  async checkSpace(neededBytes: number): Promise<void> {
    const { bavail, bsize } = await statfs(this.directory);
    const freeBytes = bavail * bsize;
    if (freeBytes < neededBytes) throw this.diskFull({ neededBytes, freeBytes });
  }

  /** Makes the error for a disk that is full or has too little free space. */
  diskFull(sizes: {
    readonly neededBytes: number;
    readonly freeBytes?: number;
    readonly cause?: unknown;
  }): CheckpointError {
    const { neededBytes, freeBytes, cause } = sizes;
    const free = freeBytes === undefined ? 'the disk is full' : `${sizeText(freeBytes)} are free`;
    return new CheckpointError(
      'MTL_HUB_DISK',
      `${basename(this.directory)} needs ${sizeText(neededBytes)} more in ${this.root}, where ${free}`,
      {
        remedy:
          'free space there, or set HF_HUB_CACHE to a folder on a larger disk; what was fetched stays, and the command goes on from it',
        details: { neededBytes, ...(freeBytes === undefined ? {} : { freeBytes }) },
        cause,
      },
    );
  }

  async #writing<Result>(task: () => Promise<Result>): Promise<Result> {
    try {
      return await task();
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      if (code === 'ENOSPC' || code === 'EDQUOT') throw this.diskFull({ neededBytes: 0, cause: error });
      throw new CheckpointError('MTL_HUB_CACHE', `the cache of models cannot be written: ${message}`, {
        remedy: 'set HF_HUB_CACHE to a folder that you can write to',
        exitCode: 2,
        cause: error,
      });
    }
  }
}

/**
 * Returns a model's name and commit, given the path of its folder in the cache,
 * `.../models--ORG--NAME/snapshots/COMMIT`, or of a file in this folder. Returns undefined for any other
 * path.
 */
export function repositoryOfSnapshot(
  path: string,
): { readonly name: string; readonly commit: string } | undefined {
  const [, owner, model, commit] =
    /(?:^|[\\/])models--(.+?)--(.+)[\\/]snapshots[\\/]([0-9a-f]{40})(?:[\\/]|$)/.exec(path) ?? [];
  if (owner === undefined || model === undefined || commit === undefined) return undefined;
  return { name: `${owner}/${model}`, commit };
}
