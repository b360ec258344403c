import { crc32 } from 'node:zlib';
import { dtypeBytes } from '../tensors/dtype.js';
import { type FileRange, torchFileInvalid } from './file-range.js';
import { maxPickleBytes, readTorchPickle } from './torch-pickle.js';
import type { TorchFileContents } from './torch-tensor.js';

/** Reads the structure of a file that torch.save wrote in version 1.6 or later (a zip file). */
export async function readTorchZip(range: FileRange): Promise<TorchFileContents> {
  const { path } = range;
  const entries = await readZipEntries(range);
  const pickles = [...entries.keys()].filter((name) => /^[^/]+\/data\.pkl$/.test(name));
  const [name] = pickles;
  if (name === undefined || pickles.length > 1) {
    throw torchFileInvalid(path, `it is a zip file with ${pickles.length} entries data.pkl`, {
      expected: 'a file that torch.save wrote',
    });
  }
  const folder = name.slice(0, -'data.pkl'.length);
  const read = async (entry: ZipEntry, maxBytes: number): Promise<Buffer> => {
    if (entry.bytes > maxBytes) throw torchFileInvalid(path, `${entry.name} has ${entry.bytes} bytes`);
    const bytes = await range.read(await startOfEntry(range, entry), entry.bytes);
    checkEntry(entry, bytes, path);
    return bytes;
  };
  const order = entries.get(`${folder}byteorder`);
  if (order !== undefined && (await read(order, 64)).toString('latin1') !== 'little') {
    throw torchFileInvalid(path, 'its numbers are big-endian', {
      expected: 'a file that was saved on a little-endian machine',
    });
  }
  return {
    content: readTorchPickle(await read(entries.get(name)!, maxPickleBytes), path),
    find: async ({ key, dtype, numElements }) => {
      const entry = entries.get(`${folder}data/${key}`);
      if (entry === undefined) {
        throw torchFileInvalid(path, `${folder}data/${key}, which a tensor refers to, is missing`);
      }
      const bytes = numElements * dtypeBytes[dtype];
      if (entry.bytes !== bytes) {
        throw torchFileInvalid(path, `${entry.name} has ${entry.bytes} bytes, and ${bytes} are declared`);
      }
      const start = await startOfEntry(range, entry);
      return { start, bytes, check: (values) => checkEntry(entry, values, path) };
    },
  };
}

/** An entry of a zip file, stored without compression. */
interface ZipEntry {
  readonly name: string;
  readonly bytes: number;
  /** CRC-32 of the entry's bytes; 0 if the writer omitted the checksum. */
  readonly checksum: number;
  /** The offset of the entry's local header in the zip file. */
  readonly headerStart: number;
}

// Constants of the zip format: APPNOTE.TXT of PKWARE, sections 4.3 and 4.4
const endSignature = 0x06054b50;
const endBytes = 22;
const end64LocatorSignature = 0x07064b50;
const end64LocatorBytes = 20;
const end64Signature = 0x06064b50;
const end64Bytes = 56;
const centralSignature = 0x02014b50;
const centralBytes = 46;
const localSignature = 0x04034b50;
const localBytes = 30;
const maxCommentBytes = 0xffff;
const inZip64 = 0xffffffff;
/** The maximum size of a zip directory, in bytes: a PyTorch file needs about 100 bytes per tensor. */
const maxDirectoryBytes = 1 << 28;

interface Directory {
  readonly start: number;
  readonly bytes: number;
  readonly numEntries: number;
}

/**
 * Reads the entries of a zip file by name, from its central directory.
 *
 * @throws CheckpointError MTL_TORCH_FILE_INVALID unless the file is a zip file whose entries are uncompressed
 *   and within the file
 */
async function readZipEntries(range: FileRange): Promise<ReadonlyMap<string, ZipEntry>> {
  const directory = await findDirectory(range);
  const bytes = await range.read(directory.start, directory.bytes);
  const entries = new Map<string, ZipEntry>();
  let position = 0;
  for (let index = 0; index < directory.numEntries; index++) {
    const isHere =
      position + centralBytes <= bytes.length && bytes.readUInt32LE(position) === centralSignature;
    if (!isHere) throw torchFileInvalid(range.path, `entry ${index} of its zip directory is damaged`);
    const nameEnd = position + centralBytes + bytes.readUInt16LE(position + 28);
    const extraEnd = nameEnd + bytes.readUInt16LE(position + 30);
    const end = extraEnd + bytes.readUInt16LE(position + 32);
    if (end > bytes.length)
      throw torchFileInvalid(range.path, `entry ${index} of its zip directory is cut off`);
    const name = bytes.toString('utf8', position + centralBytes, nameEnd);
    const header = bytes.subarray(position, position + centralBytes);
    const entry = parseEntry({ name, header, extra: bytes.subarray(nameEnd, extraEnd) }, range.path);
    if (entry.headerStart + localBytes + entry.bytes > directory.start) {
      throw torchFileInvalid(range.path, `${name} ends beyond its zip directory`);
    }
    if (entries.has(name)) throw torchFileInvalid(range.path, `it has two entries ${name}`);
    entries.set(name, entry);
    position = end;
  }
  return entries;
}

/** Returns the offset of an entry's content in the zip file. */
async function startOfEntry(range: FileRange, entry: ZipEntry): Promise<number> {
  const header = await range.read(entry.headerStart, localBytes);
  if (header.readUInt32LE(0) !== localSignature) {
    throw torchFileInvalid(range.path, `the header of ${entry.name} is damaged`);
  }
  return entry.headerStart + localBytes + header.readUInt16LE(26) + header.readUInt16LE(28);
}

/** Compares the complete content of an entry with its checksum. */
function checkEntry(entry: ZipEntry, bytes: Uint8Array, path: string): void {
  if (entry.checksum === 0 || crc32(bytes) === entry.checksum) return;
  throw torchFileInvalid(path, `${entry.name} does not have its checksum: it is damaged`);
}

async function findDirectory(range: FileRange): Promise<Directory> {
  const tailBytes = Math.min(range.length, endBytes + maxCommentBytes);
  const tail = await range.read(range.length - tailBytes, tailBytes);
  let position = tail.length - endBytes;
  const isEnd = (): boolean =>
    tail.readUInt32LE(position) === endSignature &&
    position + endBytes + tail.readUInt16LE(position + 20) === tail.length;
  while (position >= 0 && !isEnd()) position--;
  if (position < 0) throw await notZip(range);
  const numEntries = tail.readUInt16LE(position + 10);
  const bytes = tail.readUInt32LE(position + 12);
  const start = tail.readUInt32LE(position + 16);
  const hasMore = numEntries === 0xffff || bytes === inZip64 || start === inZip64;
  const endStart = range.length - tail.length + position;
  const directory = hasMore ? await findDirectory64(range, endStart) : { start, bytes, numEntries };
  const fits = directory.start + directory.bytes <= range.length;
  if (
    fits &&
    directory.bytes <= maxDirectoryBytes &&
    directory.numEntries * centralBytes <= directory.bytes
  ) {
    return directory;
  }
  throw torchFileInvalid(
    range.path,
    `it declares a zip directory of ${directory.numEntries} entries and ${directory.bytes} bytes at ${directory.start}`,
  );
}

async function findDirectory64(range: FileRange, endStart: number): Promise<Directory> {
  const locator = await range.read(endStart - end64LocatorBytes, end64LocatorBytes);
  const end = Number(locator.readBigUInt64LE(8));
  const record = await range.read(end, end64Bytes);
  const isThere =
    locator.readUInt32LE(0) === end64LocatorSignature && record.readUInt32LE(0) === end64Signature;
  if (!isThere) throw torchFileInvalid(range.path, 'the end of its zip directory is damaged');
  const [numEntries, bytes, start] = [32, 40, 48].map((at) => Number(record.readBigUInt64LE(at))) as [
    ...[number, number, number],
  ];
  return { start, bytes, numEntries };
}

function parseEntry(
  { name, header, extra }: { readonly name: string; readonly header: Buffer; readonly extra: Buffer },
  path: string,
): ZipEntry {
  const [flags, method] = [header.readUInt16LE(8), header.readUInt16LE(10)];
  if (method !== 0 || (flags & 1) !== 0) {
    throw torchFileInvalid(path, `${name} is ${method === 0 ? 'encrypted' : 'compressed'}`, {
      expected: 'entries stored as they are, as torch.save writes them',
    });
  }
  const [compressed, bytes, headerStart] = [20, 24, 42].map((at) => header.readUInt32LE(at)) as [
    ...[number, number, number],
  ];
  const wide = wideFields(extra);
  const wideField = (value: number): number => (value === inZip64 ? Number(wide.shift() ?? inZip64) : value);
  // the fields are read in the order of the format
  const entry = { name, checksum: header.readUInt32LE(16), bytes: wideField(bytes) };
  const stored = wideField(compressed);
  if (stored !== entry.bytes) {
    throw torchFileInvalid(path, `${name} has ${stored} bytes stored and ${entry.bytes} declared`);
  }
  return { ...entry, headerStart: wideField(headerStart) };
}

/** Returns the 64-bit fields (zip64) of an entry in their order. */
function wideFields(extra: Buffer): bigint[] {
  let position = 0;
  while (position + 4 <= extra.length) {
    const [id, bytes] = [extra.readUInt16LE(position), extra.readUInt16LE(position + 2)];
    const content = extra.subarray(position + 4, position + 4 + bytes);
    if (id === 1) {
      return Array.from({ length: Math.floor(content.length / 8) }, (_, index) =>
        content.readBigUInt64LE(8 * index),
      );
    }
    position += 4 + bytes;
  }
  return [];
}

/** Returns the error about a file without a zip directory. */
async function notZip(range: FileRange) {
  const first = await range.read(0, Math.min(range.length, 4));
  const isZip = first.length === 4 && first.readUInt32LE(0) === localSignature;
  const problem = isZip ? 'the end of its zip file is missing: it was cut off' : 'it is not a zip file';
  return torchFileInvalid(range.path, problem, { expected: 'a file that torch.save wrote' });
}
