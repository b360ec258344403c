import { crc32 } from 'node:zlib';
import { UsageError } from '@mtl/errors';
import { type Dtype, volumeOfShape } from '@mtl/layout';
import { PickledGlobal, PickledObject } from './read-pickle.js';
import { findStorageClass } from './torch-pickle.js';
import { PersistentIdentifier, PickledTuple, type PickleValue, writePickle } from './write-pickle.js';

/** A tensor to write, with little-endian bytes in row-major order. */
interface TensorToEncode {
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
}

/** Returns the bytes of a file from which torch.load reads `value`, as a list of buffers. */
export function encodeTorchObject(value: PickleValue): readonly Uint8Array[] {
  return encodeEntries([['data.pkl', writePickle(value)]]);
}

/**
 * Returns the bytes of a file from which torch.load reads the given tensor, as a list of buffers.
 *
 * @throws UsageError MTL_TORCH_FILE_DTYPE for a dtype without a storage in torch.save
 */
export function encodeTorchTensor({ dtype, shape, bytes }: TensorToEncode): readonly Uint8Array[] {
  const storage = findStorageClass(dtype);
  if (storage === undefined) {
    throw new UsageError('MTL_TORCH_FILE_DTYPE', `a tensor of ${dtype} cannot be saved for PyTorch`, {
      expected: 'F32, BF16, F16, F64 or integers',
    });
  }
  const strides = shape.map((_, dim) => volumeOfShape(shape.slice(dim + 1)));
  const identifier = ['storage', new PickledGlobal('torch', storage), '0', 'cpu', volumeOfShape(shape)];
  const tensor = new PickledObject('torch._utils._rebuild_tensor_v2', [
    new PersistentIdentifier(new PickledTuple(identifier)),
    0,
    new PickledTuple(shape),
    new PickledTuple(strides),
    false,
    new PickledObject('collections.OrderedDict', []),
  ]);
  return encodeEntries([
    ['data.pkl', writePickle(tensor)],
    ['data/0', bytes],
  ]);
}

function encodeEntries(
  contents: readonly (readonly [name: string, bytes: Uint8Array])[],
): readonly Uint8Array[] {
  const all: readonly (readonly [string, Uint8Array])[] = [
    ...contents,
    ['byteorder', Buffer.from('little')],
    ['version', Buffer.from('3\n')],
  ];
  const plan = planZip(
    all.map(([name, bytes]) => ({ name: `archive/${name}`, bytes: bytes.length, checksum: crc32(bytes) })),
  );
  return [...all.flatMap(([, bytes], index) => [plan.headers[index]!, bytes]), plan.directory];
}

/** An entry of a zip file to write. The caller writes its content. */
interface PlannedEntry {
  readonly name: string;
  readonly bytes: number;
  /** CRC-32 of the bytes. */
  readonly checksum: number;
}

/**
 * The parts of a zip file that are not contents of its entries: the bytes before each entry, and the
 * directory at the end.
 */
interface ZipPlan {
  /** The bytes before the content of each entry: padding and header. */
  readonly headers: readonly Buffer[];
  readonly directory: Buffer;
  /** The size of the complete file in bytes. */
  readonly bytes: number;
}

const limit = 0xffffffff;
/** The alignment of storages in files that torch.save writes, in bytes. */
const alignment = 64;
const storedVersion = 20;
const zip64Version = 45;

/**
 * Computes the layout of a zip file with uncompressed entries (APPNOTE.TXT of PKWARE, section 4.3). Entries
 * of 4 GB and more use zip64 fields. As in files that torch.save writes, the content of an entry begins at a
 * multiple of 64 bytes.
 */
export function planZip(entries: readonly PlannedEntry[]): ZipPlan {
  const headers: Buffer[] = [];
  const records: Buffer[] = [];
  let position = 0;
  for (const entry of entries) {
    const header = localHeader(entry, position);
    headers.push(header);
    records.push(centralRecord(entry, position));
    position += header.length + entry.bytes;
  }
  const central = Buffer.concat(records);
  const directory = Buffer.concat([
    central,
    ...ends({ numEntries: entries.length, bytes: central.length, start: position }),
  ]);
  return { headers, directory, bytes: position + directory.length };
}

const extraField = (id: number, content: Buffer): Buffer => {
  const header = Buffer.alloc(4);
  header.writeUInt16LE(id, 0);
  header.writeUInt16LE(content.length, 2);
  return Buffer.concat([header, content]);
};

function wide(...values: readonly number[]): Buffer {
  if (values.length === 0) return Buffer.alloc(0);
  const content = Buffer.alloc(8 * values.length);
  for (const [index, value] of values.entries()) content.writeBigUInt64LE(BigInt(value), 8 * index);
  return extraField(1, content);
}

function localHeader({ name, bytes, checksum }: PlannedEntry, start: number): Buffer {
  const isWide = bytes >= limit;
  const encoded = Buffer.from(name, 'utf8');
  const sizes = isWide ? wide(bytes, bytes) : Buffer.alloc(0);
  const end = start + 30 + encoded.length + sizes.length + 4;
  // "FB" is the ID of torch.save's padding field
  const padding = extraField(0x4246, Buffer.alloc((alignment - (end % alignment)) % alignment, 'Z'));
  const header = Buffer.alloc(30);
  header.writeUInt32LE(0x04034b50, 0);
  header.writeUInt16LE(isWide ? zip64Version : storedVersion, 4);
  header.writeUInt32LE(checksum, 14);
  header.writeUInt32LE(isWide ? limit : bytes, 18);
  header.writeUInt32LE(isWide ? limit : bytes, 22);
  header.writeUInt16LE(encoded.length, 26);
  header.writeUInt16LE(sizes.length + padding.length, 28);
  return Buffer.concat([header, encoded, sizes, padding]);
}

function centralRecord({ name, bytes, checksum }: PlannedEntry, start: number): Buffer {
  const [isWide, isFar] = [bytes >= limit, start >= limit];
  const encoded = Buffer.from(name, 'utf8');
  const extra = wide(...(isWide ? [bytes, bytes] : []), ...(isFar ? [start] : []));
  const record = Buffer.alloc(46);
  record.writeUInt32LE(0x02014b50, 0);
  record.writeUInt16LE(isWide || isFar ? zip64Version : storedVersion, 4);
  record.writeUInt16LE(isWide || isFar ? zip64Version : storedVersion, 6);
  record.writeUInt32LE(checksum, 16);
  record.writeUInt32LE(isWide ? limit : bytes, 20);
  record.writeUInt32LE(isWide ? limit : bytes, 24);
  record.writeUInt16LE(encoded.length, 28);
  record.writeUInt16LE(extra.length, 30);
  record.writeUInt32LE(isFar ? limit : start, 42);
  return Buffer.concat([record, encoded, extra]);
}

function ends({
  numEntries,
  bytes,
  start,
}: {
  readonly numEntries: number;
  readonly bytes: number;
  readonly start: number;
}): readonly Buffer[] {
  const isFar = start >= limit;
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(numEntries, 8);
  end.writeUInt16LE(numEntries, 10);
  end.writeUInt32LE(bytes, 12);
  end.writeUInt32LE(isFar ? limit : start, 16);
  if (!isFar) return [end];
  const record = Buffer.alloc(56);
  record.writeUInt32LE(0x06064b50, 0);
  record.writeBigUInt64LE(44n, 4);
  record.writeUInt16LE(zip64Version, 12);
  record.writeUInt16LE(zip64Version, 14);
  record.writeBigUInt64LE(BigInt(numEntries), 24);
  record.writeBigUInt64LE(BigInt(numEntries), 32);
  record.writeBigUInt64LE(BigInt(bytes), 40);
  record.writeBigUInt64LE(BigInt(start), 48);
  const locator = Buffer.alloc(20);
  locator.writeUInt32LE(0x07064b50, 0);
  locator.writeBigUInt64LE(BigInt(start + bytes), 8);
  locator.writeUInt32LE(1, 16);
  return [record, locator, end];
}
