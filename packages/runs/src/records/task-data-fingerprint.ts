import { createHash } from 'node:crypto';
import { readdirSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';
import { hashSamples } from './dataset-fingerprint.js';
import type { TaskDataRecord } from './run-record.js';

/** Files of a folder whose contents are read. */
const numSampledFiles = 64;

/**
 * Tells the data of a task apart. Of a file: a checksum of its size and of 64 blocks of 4 KiB, which is all
 * of it up to 256 KiB. Of a folder: of the names and sizes of all its files, and of blocks of 64 of them,
 * spread evenly. A change elsewhere is not noticed. A pipe, which can be read once only, has no checksum.
 */
export function taskDataFingerprint(path: string): TaskDataRecord {
  const status = statSync(path);
  if (!status.isDirectory() && !status.isFile()) return { path, bytes: 0, sampledSha256: '' };
  const hash = createHash('sha256');
  if (status.isFile()) {
    const bytes = hashSamples(hash, path);
    return { path, bytes, sampledSha256: hash.digest('hex') };
  }
  const files = filesIn(path);
  let bytes = 0;
  for (const file of files) {
    const { size } = statSync(file);
    hash.update(`${relative(path, file)} ${size}\n`);
    bytes += size;
  }
  const stride = Math.max(1, files.length / numSampledFiles);
  for (let place = 0; place < files.length; place += stride) hashSamples(hash, files[Math.floor(place)]!);
  return { path, bytes, sampledSha256: hash.digest('hex') };
}

/** The files of a folder and its folders, always in the same order. */
function filesIn(directory: string): string[] {
  return readdirSync(directory, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name))
    .sort();
}
