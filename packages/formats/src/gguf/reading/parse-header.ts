import { defaultAlignment, type TensorInfo, valueTypes } from '../metadata.js';

/**
 * A metadata value that was read from a file. A 64-bit integer is a number if a number can represent it
 * exactly, otherwise a bigint.
 */
export type ReadValue = number | bigint | boolean | string | readonly ReadValue[];

/** The header of a GGUF file. */
export interface GgufHeader {
  readonly metadata: ReadonlyMap<string, ReadValue>;
  readonly tensors: readonly TensorInfo[];
  /** The file offset of the first tensor's first byte. */
  readonly dataStart: number;
  readonly alignment: number;
}

/** The header breaks the format. */
export class HeaderDefect extends Error {}

/** Thrown if the header continues beyond the bytes that were read. */
export class HeaderCutOff extends Error {}

const mostDimensions = 4;
const mostNesting = 4;
const mostAlignment = 2 ** 20;
// more merges than any vocabulary has; the limit exists because a list of objects takes many times as much
// memory as its bytes in the file
const mostValues = 2 ** 23;

/**
 * The minimum number of bytes that a value needs, by type. A string or a list has at least a length field.
 */
const leastBytes: Readonly<Record<number, number>> = {
  [valueTypes.uint8]: 1,
  [valueTypes.int8]: 1,
  [valueTypes.uint16]: 2,
  [valueTypes.int16]: 2,
  [valueTypes.uint32]: 4,
  [valueTypes.int32]: 4,
  [valueTypes.float32]: 4,
  [valueTypes.bool]: 1,
  [valueTypes.string]: 8,
  [valueTypes.array]: 12,
  [valueTypes.uint64]: 8,
  [valueTypes.int64]: 8,
  [valueTypes.float64]: 8,
};

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Reads consecutive values from the first bytes of a file. */
class Cursor {
  position = 0;
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #fileBytes: number;

  constructor(bytes: Uint8Array, fileBytes: number) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#fileBytes = fileBytes;
  }

  /** Returns the position of the next `length` bytes, and moves the cursor past them. */
  take(length: number): number {
    const start = this.position;
    if (start + length > this.#fileBytes) throw new HeaderDefect('its header ends beyond the file');
    if (start + length > this.#bytes.length) throw new HeaderCutOff();
    this.position += length;
    return start;
  }

  uint32(): number {
    return this.#view.getUint32(this.take(4), true);
  }

  uint64(): bigint {
    return this.#view.getBigUint64(this.take(8), true);
  }

  /**
   * Reads an item count, and rejects it if that many items of at least `least` bytes each do not fit into the
   * rest of the file.
   */
  count(what: string, least: number): number {
    const count = this.uint64();
    if (count <= BigInt(Math.floor((this.#fileBytes - this.position) / least))) return Number(count);
    throw new HeaderDefect(`it declares ${count} ${what} in ${this.#fileBytes} bytes`);
  }

  text(): string {
    const length = this.count('bytes of a text', 1);
    const start = this.take(length);
    try {
      return utf8.decode(this.#bytes.subarray(start, start + length));
    } catch {
      throw new HeaderDefect(`a text at byte ${start} is not UTF-8`);
    }
  }

  value(type: number, depth = 0): ReadValue {
    switch (type) {
      case valueTypes.uint8:
        return this.#view.getUint8(this.take(1));
      case valueTypes.int8:
        return this.#view.getInt8(this.take(1));
      case valueTypes.uint16:
        return this.#view.getUint16(this.take(2), true);
      case valueTypes.int16:
        return this.#view.getInt16(this.take(2), true);
      case valueTypes.uint32:
        return this.uint32();
      case valueTypes.int32:
        return this.#view.getInt32(this.take(4), true);
      case valueTypes.float32:
        return this.#view.getFloat32(this.take(4), true);
      case valueTypes.bool:
        return this.#view.getUint8(this.take(1)) !== 0;
      case valueTypes.string:
        return this.text();
      case valueTypes.uint64:
        return exact(this.uint64());
      case valueTypes.int64:
        return exact(this.#view.getBigInt64(this.take(8), true));
      case valueTypes.float64:
        return this.#view.getFloat64(this.take(8), true);
      case valueTypes.array:
        return this.#list(depth);
      default:
        throw new HeaderDefect(`a value has the unknown type ${type}`);
    }
  }

  #list(depth: number): readonly ReadValue[] {
    const type = this.uint32();
    const least = leastBytes[type];
    if (least === undefined) throw new HeaderDefect(`a list has values of the unknown type ${type}`);
    if (depth === mostNesting) throw new HeaderDefect(`lists are nested more than ${mostNesting} deep`);
    const count = this.count('values of a list', least);
    if (count > mostValues) throw new HeaderDefect(`a list has ${count} values`);
    const values: ReadValue[] = [];
    for (let index = 0; index < count; index++) values.push(this.value(type, depth + 1));
    return values;
  }
}

const exact = (value: bigint): number | bigint =>
  value >= BigInt(Number.MIN_SAFE_INTEGER) && value <= BigInt(Number.MAX_SAFE_INTEGER)
    ? Number(value)
    : value;

function readTensor(cursor: Cursor): TensorInfo {
  const name = cursor.text();
  const numDimensions = cursor.uint32();
  if (numDimensions < 1 || numDimensions > mostDimensions) {
    throw new HeaderDefect(
      `${JSON.stringify(name)} has ${numDimensions} dimensions, not 1 to ${mostDimensions}`,
    );
  }
  const sizes = Array.from({ length: numDimensions }, () => cursor.uint64());
  const volume = sizes.reduce((product, size) => product * size, 1n);
  if (volume < 1n || volume > BigInt(Number.MAX_SAFE_INTEGER)) {
    throw new HeaderDefect(`${JSON.stringify(name)} has the sizes ${sizes.join(', ')}`);
  }
  const typeId = cursor.uint32();
  const offset = cursor.uint64();
  if (offset > BigInt(Number.MAX_SAFE_INTEGER)) {
    throw new HeaderDefect(`${JSON.stringify(name)} begins at byte ${offset}`);
  }
  return { name, shape: sizes.map(Number).reverse(), typeId, offset: Number(offset) };
}

function readAlignment(metadata: ReadonlyMap<string, ReadValue>): number {
  const alignment = metadata.get('general.alignment') ?? defaultAlignment;
  const isValid =
    typeof alignment === 'number' &&
    alignment >= 1 &&
    alignment <= mostAlignment &&
    Number.isInteger(Math.log2(alignment));
  if (isValid) return alignment;
  throw new HeaderDefect(`general.alignment is ${String(alignment)}, and not a power of 2`);
}

/**
 * Parses the header of a GGUF file of version 2 or 3.
 *
 * @param bytes the first bytes of the file
 * @param fileBytes the size of the file
 * @throws HeaderCutOff if the header continues after `bytes`; HeaderDefect if it violates the format
 */
export function parseHeader(bytes: Uint8Array, fileBytes: number): GgufHeader {
  const cursor = new Cursor(bytes, fileBytes);
  const magic = cursor.take(4);
  if (Buffer.from(bytes.subarray(magic, magic + 4)).toString('latin1') !== 'GGUF') {
    throw new HeaderDefect('it does not begin with GGUF');
  }
  const version = cursor.uint32();
  if (version !== 2 && version !== 3) throw new HeaderDefect(`its version is ${version}, not 2 or 3`);
  const numTensors = cursor.count('tensors', 24);
  const numValues = cursor.count('values of metadata', 13);
  const metadata = new Map<string, ReadValue>();
  for (let index = 0; index < numValues; index++) {
    const key = cursor.text();
    if (metadata.has(key)) throw new HeaderDefect(`it has two values ${JSON.stringify(key)}`);
    metadata.set(key, cursor.value(cursor.uint32()));
  }
  const tensors: TensorInfo[] = [];
  const names = new Set<string>();
  for (let index = 0; index < numTensors; index++) {
    const tensor = readTensor(cursor);
    if (names.has(tensor.name)) throw new HeaderDefect(`it has two tensors ${JSON.stringify(tensor.name)}`);
    names.add(tensor.name);
    tensors.push(tensor);
  }
  const alignment = readAlignment(metadata);
  const dataStart = Math.ceil(cursor.position / alignment) * alignment;
  return { metadata, tensors, dataStart, alignment };
}
