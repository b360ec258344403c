import { createHash, type Hash } from 'node:crypto';
import { type FileHandle, open, rm, stat } from 'node:fs/promises';
import { CheckpointError } from '@mtl/errors';
import { renameFile } from '@mtl/errors/files';
import type { HubCache } from '../cache/hub-cache.js';
import type { HubClient } from '../requests/hub-client.js';
import { refusedRequest } from '../requests/refused-request.js';
import { sizeText } from '../size-text.js';
import { claimPartialFile, markClaimed, removeAbandonedFiles } from './partial-file.js';

/** A file in a repository, as listed by the Hub. */
export interface HubFile {
  /** Its name in the repository. */
  readonly file: string;
  readonly bytes: number;
  /**
   * The file's name in the cache, which is its hash in hexadecimal: 64 digits for SHA-256, or 40 for Git's
   * SHA-1.
   */
  readonly etag: string;
}

interface DownloadBlobOptions extends HubFile {
  readonly client: HubClient;
  readonly cache: HubCache;
  /** `org/name` */
  readonly name: string;
  readonly commit: string;
  /** Called with the number of bytes that were added. The number is negative if bytes were discarded. */
  readonly onBytes: (added: number) => void;
}

/**
 * Downloads a file's contents into the cache. If the connection breaks, the download continues after the last
 * byte received, in this process or in a later one. The size and hash of the whole file are checked before it
 * gets its final name.
 *
 * @throws CheckpointError MTL_HUB_UNREACHABLE, MTL_HUB_HASH, MTL_HUB_DISK; errors of `refusedRequest`
 */
export async function downloadBlob(options: DownloadBlobOptions): Promise<void> {
  const { cache, etag, bytes } = options;
  const path = cache.blobPath(etag);
  const partial = await claimPartialFile(path);
  markClaimed(partial, true);
  try {
    const handle = await open(partial, 'a+');
    try {
      const digest = await new PartialDownload(options, handle).run();
      await handle.sync();
      if (digest !== etag) await refuseHash(options, { partial, digest });
    } finally {
      await handle.close();
    }
    await renameFile(partial, path);
    await removeAbandonedFiles(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOSPC' || code === 'EDQUOT') {
      const done = (await stat(partial).catch(() => undefined))?.size ?? 0;
      throw cache.diskFull({ neededBytes: bytes - done, cause: error });
    }
    throw error;
  } finally {
    markClaimed(partial, false);
  }
}

async function refuseHash(
  { name, file, etag, client }: DownloadBlobOptions,
  { partial, digest }: { readonly partial: string; readonly digest: string },
): Promise<never> {
  await rm(partial, { force: true });
  throw new CheckpointError(
    'MTL_HUB_HASH',
    `${file} of ${name} arrived with hash ${digest}, and ${client.host} lists ${etag}`,
    {
      remedy:
        'run the command again, which fetches this file anew; if it happens again, a proxy may change files',
      details: { file, digest, expected: etag },
    },
  );
}

/**
 * Returns a hash of the kind that names the file: SHA-256 for large files, otherwise the hash of a Git blob.
 */
function hashFor({ etag, bytes }: HubFile): Hash {
  return etag.length === 64 ? createHash('sha256') : createHash('sha1').update(`blob ${bytes}\0`);
}

/** Thrown if a connection ended or delivered too few bytes, so that another attempt may succeed. */
class BrokenConnection extends Error {}

/** A download into an open file, which may already contain the beginning. */
class PartialDownload {
  readonly #options: DownloadBlobOptions;
  readonly #handle: FileHandle;
  #hash: Hash;
  #done = 0;

  constructor(options: DownloadBlobOptions, handle: FileHandle) {
    this.#options = options;
    this.#handle = handle;
    this.#hash = hashFor(options);
  }

  /** Completes the file, and returns the hash of all its bytes. */
  async run(): Promise<string> {
    const { bytes, client } = this.#options;
    await this.#readBeginning();
    for (let attempt = 1; this.#done < bytes; attempt++) {
      const before = this.#done;
      try {
        await this.#receive();
      } catch (error) {
        if (!(error instanceof BrokenConnection)) throw error;
        if (this.#done > before) attempt = 1; // the download makes progress, if slowly, so attempts are counted anew
        if (attempt >= client.patience.mostAttempts)
          throw client.unreachable(error.cause ?? error, this.#url);
        await client.pause(attempt);
      }
    }
    return this.#hash.digest('hex');
  }

  get #url(): string {
    const { client, name, commit, file } = this.#options;
    const path = file.split('/').map(encodeURIComponent).join('/');
    return `${client.settings.endpoint}/${name}/resolve/${commit}/${path}`;
  }

  /** Hashes the bytes that an interrupted download has left in the file. */
  async #readBeginning(): Promise<void> {
    const { bytes, onBytes } = this.#options;
    const { size } = await this.#handle.stat();
    if (size > bytes) return await this.#startOver();
    const buffer = new Uint8Array(1 << 20);
    while (this.#done < size) {
      const { bytesRead } = await this.#handle.read(buffer, 0, buffer.length, this.#done);
      this.#hash.update(buffer.subarray(0, bytesRead));
      this.#done += bytesRead;
      onBytes(bytesRead);
    }
  }

  async #startOver(): Promise<void> {
    await this.#handle.truncate(0);
    this.#options.onBytes(-this.#done);
    this.#done = 0;
    this.#hash = hashFor(this.#options);
  }

  /** Appends the bytes that one connection delivers. @throws BrokenConnection */
  async #receive(): Promise<void> {
    const { client, name, commit, file, bytes, onBytes } = this.#options;
    const stalled = new AbortController();
    const { stallMs } = client.patience;
    const response = await client.send(this.#url, {
      headers: {
        // an uncompressed answer is requested, because the number of bytes received must be the size of the
        // file
        'accept-encoding': 'identity',
        ...(this.#done === 0 ? {} : { range: `bytes=${this.#done}-` }),
      },
      signal: stalled.signal,
    });
    if (response.status === 416) {
      await response.body?.cancel();
      await this.#startOver();
      throw new BrokenConnection(`no bytes after ${this.#done}`);
    }
    if (!response.ok || response.body === null)
      throw await refusedRequest({ client, response, name, revision: commit, file });
    // if a server does not support ranges, it sends the file from its beginning
    const from = /^bytes (\d+)-/.exec(response.headers.get('content-range') ?? '')?.[1];
    const start = response.status === 206 ? Number(from ?? 0) : 0;
    if (start !== this.#done) await this.#startOver();
    if (start > 0 && this.#done === 0) {
      await response.body.cancel();
      throw new BrokenConnection('bytes of another place');
    }
    let timer = setTimeout(() => stalled.abort(), stallMs);
    const reader = response.body.getReader();
    try {
      for (;;) {
        const { done, value } = await reader.read().catch((error: unknown) => {
          throw new BrokenConnection('the connection broke', { cause: error });
        });
        if (done) break;
        clearTimeout(timer);
        timer = setTimeout(() => stalled.abort(), stallMs);
        if (this.#done + value.length > bytes) throw this.#tooLong(value.length);
        await writeWhole(this.#handle, value);
        this.#hash.update(value);
        this.#done += value.length;
        onBytes(value.length);
      }
    } finally {
      clearTimeout(timer);
      await reader.cancel().catch(() => {});
    }
    if (this.#done < bytes)
      throw new BrokenConnection(`${sizeText(this.#done)} of ${sizeText(bytes)} arrived`);
  }

  #tooLong(added: number): CheckpointError {
    const { name, file, bytes } = this.#options;
    return new CheckpointError(
      'MTL_HUB_HASH',
      `${file} of ${name} has ${bytes} bytes by its list, and at least ${this.#done + added} arrived`,
      { remedy: 'run the command again; if it happens again, a proxy may change files' },
    );
  }
}

/** Appends all bytes. Several writes may be needed, because a single write may write only some bytes. */
async function writeWhole(handle: FileHandle, bytes: Uint8Array): Promise<void> {
  let written = 0;
  while (written < bytes.length) written += (await handle.write(bytes, written)).bytesWritten;
}
