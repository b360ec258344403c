import { createHash, type Hash } from 'node:crypto';
import { closeSync, fstatSync, openSync, readdirSync, readSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';
import { parseDataPath } from '@mtl/data';
import type { DatasetRecord, TaskDataRecord } from '@mtl/run-records';

const blockBytes = 4096;
const numBlocks = 64;

/**
 * The largest total size of a run's datasets, in bytes, for which checksums cover all bytes. Reading this
 * many bytes hardly delays the start of a run, because the first epoch reads them anyway.
 */
const maxWholeBytes = 256 * 2 ** 20;

interface FingerprintOptions {
  /** True to add a checksum of all bytes. Default: false. */
  readonly isWhole?: boolean;
}

/**
 * Returns a fingerprint that identifies a dataset of any size without reading all of it: a checksum of the
 * sizes of .idx and .bin, and of 64 evenly spaced blocks of 4 KiB in each file. A change between these blocks
 * is detected only by the checksum of all bytes.
 */
export function datasetFingerprint(
  prefix: string,
  { isWhole = false }: FingerprintOptions = {},
): DatasetRecord {
  const hash = createHash('sha256');
  const paths = pathsOfDataset(prefix);
  const [idxBytes, binBytes] = paths.map((path) => hashSamples(hash, path)) as [number, number];
  const sampled = { prefix, idxBytes, binBytes, sampledSha256: hash.digest('hex') };
  return isWhole ? { ...sampled, sha256: wholeSha256(paths) } : sampled;
}

/**
 * Returns the fingerprints of the datasets in --data-path. Mock data has no files, and therefore no
 * fingerprint. Datasets of at most 256 MiB in total are read completely.
 */
export function datasetFingerprints(dataPath: readonly string[]): DatasetRecord[] {
  if (dataPath.length === 0) return [];
  const { prefixes } = parseDataPath(dataPath);
  const sizes = prefixes.flatMap(pathsOfDataset).map((path) => statSync(path).size);
  const isWhole = sizes.reduce((sum, size) => sum + size, 0) <= maxWholeBytes;
  return prefixes.map((prefix) => datasetFingerprint(prefix, { isWhole }));
}

const pathsOfDataset = (prefix: string): string[] =>
  ['.idx', '.bin'].map((extension) => `${prefix}${extension}`);

/**
 * Returns a checksum of the sizes and all bytes of files, and of the names that `nameFile` returns, in the
 * given order.
 */
function wholeSha256(paths: readonly string[], nameFile: (path: string) => string = () => ''): string {
  const hash = createHash('sha256');
  const chunk = Buffer.allocUnsafe(2 ** 20);
  for (const path of paths) hashWhole(hash, { path, name: nameFile(path), chunk });
  return hash.digest('hex');
}

/** Adds a file's name, size and bytes to `hash`. The file is read in pieces into `chunk`. */
function hashWhole(
  hash: Hash,
  { path, name, chunk }: { readonly path: string; readonly name: string; readonly chunk: Buffer },
): void {
  const file = openSync(path, 'r');
  try {
    hash.update(`${name} ${fstatSync(file).size}\n`);
    for (let read = readSync(file, chunk); read > 0; read = readSync(file, chunk))
      hash.update(chunk.subarray(0, read));
  } finally {
    closeSync(file);
  }
}

/**
 * Adds a file's size and 64 blocks of its data to `hash`. The blocks cover files of up to 256 KiB completely.
 *
 * @returns the size of the file in bytes
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

/** Returns the distinct offsets at which blocks start, evenly spaced from 0 to `last`. */
function blockStarts(last: number): ReadonlySet<number> {
  return new Set(
    Array.from({ length: numBlocks }, (_, index) => Math.floor((last * index) / (numBlocks - 1))),
  );
}

/** The maximum number of files in a folder whose contents are sampled. */
const numSampledFiles = 64;

/**
 * Returns a fingerprint that identifies a task's data. For a file, it is a checksum of the size and of
 * 64 blocks of 4 KiB, which cover files of up to 256 KiB completely. For a folder, it is a checksum of the
 * names and sizes of all files, and of blocks of 64 evenly spaced files. A change elsewhere is detected
 * only by the checksum of all bytes, which costs little if a run reads all files anyway. A pipe has no
 * checksum, because it can be read only once.
 */
export function taskDataFingerprint(
  path: string,
  { isWhole = false }: FingerprintOptions = {},
): TaskDataRecord {
  const status = statSync(path);
  if (!status.isDirectory() && !status.isFile()) return { path, bytes: 0, sampledSha256: '' };
  const hash = createHash('sha256');
  if (status.isFile()) {
    const bytes = hashSamples(hash, path);
    const sampled = { path, bytes, sampledSha256: hash.digest('hex') };
    return isWhole ? { ...sampled, sha256: wholeSha256([path]) } : sampled;
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
  const sampled = { path, bytes, sampledSha256: hash.digest('hex') };
  return isWhole ? { ...sampled, sha256: wholeSha256(files, (file) => relative(path, file)) } : sampled;
}

/** Returns the files of a folder and its subfolders, always in the same order. */
function filesIn(directory: string): string[] {
  return readdirSync(directory, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name))
    .sort();
}
