import { createHash, type Hash } from 'node:crypto';
import { closeSync, fstatSync, openSync, readdirSync, readSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';
import { parseDataPath } from '@mtl/data';
import type { DatasetRecord, TaskDataRecord } from './run-record.js';

const blockBytes = 4096;
const numBlocks = 64;

/**
 * Tells datasets apart at any size without reading all of them: a checksum of the sizes of .idx and .bin and
 * of 64 blocks of 4 KiB of each, spread evenly from the first to the last. A change elsewhere is not noticed.
 */
export function datasetFingerprint(prefix: string): DatasetRecord {
  const hash = createHash('sha256');
  const [idxBytes, binBytes] = ['.idx', '.bin'].map((extension) =>
    hashSamples(hash, `${prefix}${extension}`),
  ) as [number, number];
  return { prefix, idxBytes, binBytes, sampledSha256: hash.digest('hex') };
}

/**
 * Returns the fingerprints of the datasets that the words of --data-path name; none of made-up data, which
 * has no files.
 */
export const datasetFingerprints = (dataPath: readonly string[]): DatasetRecord[] =>
  dataPath.length === 0 ? [] : parseDataPath(dataPath).prefixes.map(datasetFingerprint);

/**
 * Adds a file's size and 64 blocks of it to a hash, which is all of a file of up to 256 KiB.
 *
 * @returns its size in bytes
 */
function hashSamples(hash: Hash, path: string): number {
  const file = openSync(path, 'r');
  try {
    const { size } = fstatSync(file);
    hash.update(`${size} `);
    const block = Buffer.alloc(blockBytes);
    const last = Math.max(0, size - blockBytes);
    for (const start of blockStarts(last)) {
      hash.update(block.subarray(0, readSync(file, block, 0, blockBytes, start)));
    }
    return size;
  } finally {
    closeSync(file);
  }
}

/** Returns the offsets at which blocks start, from 0 to `last`, each once. */
function blockStarts(last: number): ReadonlySet<number> {
  return new Set(
    Array.from({ length: numBlocks }, (_, index) => Math.floor((last * index) / (numBlocks - 1))),
  );
}

/** Files of a folder whose contents are read. */
const numSampledFiles = 64;

/**
 * Tells the data of a task apart. For a file: a checksum of its size and of 64 blocks of 4 KiB, which is all
 * of it up to 256 KiB. For a folder: one of the names and sizes of all its files, and of blocks of 64 of
 * them, spread evenly. A change elsewhere is not noticed. A pipe, which can be read once only, has no
 * checksum.
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

/** Returns the files of a folder and its folders, always in the same order. */
function filesIn(directory: string): string[] {
  return readdirSync(directory, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name))
    .sort();
}
