import { closeSync } from 'node:fs';
import { openRegularFile, readFully } from '../files/regular-files.js';
import {
  float64ToInt64Bits,
  int64BitsToFloat64,
  sharedFloat64Array,
  sharedInt16Array,
  sharedInt32Array,
  sharedUint32Array,
} from '../files/typed-arrays.js';
import { writeFileAtomically } from '../files/write-files.js';

/** Element types of index files; `<i8` is stored as exact float64 values. */
export interface NpyArrays {
  '<i2': Int16Array;
  '<i4': Int32Array;
  '<u4': Uint32Array;
  '<i8': Float64Array;
}
export type NpyDescription = keyof NpyArrays;

const itemSizes: Record<NpyDescription, number> = { '<i2': 2, '<i4': 4, '<u4': 4, '<i8': 8 };
const magic = Buffer.from('\x93NUMPY\x01\x00', 'latin1');
const preambleBytes = magic.length + 2;

/** Writes an array as NumPy's format version 1.0, byte for byte as `numpy.save`, atomically. */
export function writeNpy<D extends NpyDescription>(options: {
  path: string;
  descr: D;
  shape: readonly number[];
  values: NpyArrays[D];
}): void {
  const { path, descr, shape, values } = options;
  const shapeText = shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(', ')})`;
  const header = `{'descr': '${descr}', 'fortran_order': False, 'shape': ${shapeText}, }`;
  const padding = (64 - ((preambleBytes + header.length + 1) % 64)) % 64;
  const text = `${header}${' '.repeat(padding)}\n`;
  const size = Buffer.alloc(2);
  size.writeUInt16LE(text.length);
  const data = values instanceof Float64Array ? float64ToInt64Bits(values) : values;
  writeFileAtomically(path, [magic, size, Buffer.from(text, 'latin1'), data]);
}

/**
 * Reads an array of the expected element type and shape; throws an Error that describes what does not match.
 */
export function readNpy<D extends NpyDescription>(options: {
  path: string;
  descr: D;
  /** Expected shape; undefined where any size will do. */
  shape: readonly (number | undefined)[];
}): NpyArrays[D] {
  const { path, descr, shape } = options;
  const { descriptor, size } = openRegularFile(path);
  try {
    const { header, dataOffset } = readHeader(descriptor);
    const fields =
      /^\{'descr': '([^']+)', 'fortran_order': (True|False), 'shape': \(([\d, ]*)\), \}\s*$/.exec(header);
    if (fields === null) throw new Error('its header is not one of an array');
    const dims = fields[3]!.split(',').filter((dim) => dim.trim() !== '');
    const fits =
      dims.length === shape.length && dims.every((dim, i) => Number(dim) === (shape[i] ?? Number(dim)));
    if (fields[1] !== descr || fields[2] !== 'False' || !fits) {
      const expected = shape.map((dim) => dim ?? 'any').join(', ');
      throw new Error(`it holds ${fields[1]} (${dims.join(', ')}), expected ${descr} (${expected})`);
    }
    const length = dims.reduce((count, dim) => count * Number(dim), 1);
    const bytes = size - dataOffset;
    if (bytes !== length * itemSizes[descr]) throw new Error(`it holds ${bytes} bytes of data`);
    const values = allocate(descr, length);
    if (readFully(descriptor, values, dataOffset) !== values.byteLength)
      throw new Error('it shrank while read');
    return (descr === '<i8' ? int64BitsToFloat64(values as Float64Array) : values) as NpyArrays[D];
  } finally {
    closeSync(descriptor);
  }
}

function readHeader(descriptor: number): { header: string; dataOffset: number } {
  const preamble = Buffer.alloc(preambleBytes);
  const read = readFully(descriptor, preamble, 0);
  if (read < preambleBytes || !preamble.subarray(0, magic.length).equals(magic)) {
    throw new Error('it is not a NumPy file of version 1.0');
  }
  const header = Buffer.alloc(preamble.readUInt16LE(magic.length));
  if (readFully(descriptor, header, preambleBytes) !== header.length)
    throw new Error('its header is truncated');
  return { header: header.toString('latin1'), dataOffset: preambleBytes + header.length };
}

function allocate(descr: NpyDescription, length: number): NpyArrays[NpyDescription] {
  if (descr === '<i2') return sharedInt16Array(length);
  if (descr === '<i4') return sharedInt32Array(length);
  if (descr === '<u4') return sharedUint32Array(length);
  return sharedFloat64Array(length);
}
