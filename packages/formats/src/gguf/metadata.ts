/**
 * The codes of metadata value types in GGUF files (see the specification of GGUF, version 3). Numbers are
 * little-endian. A string is its length followed by its UTF-8 bytes.
 */
export const valueTypes = {
  uint8: 0,
  int8: 1,
  uint16: 2,
  int16: 3,
  uint32: 4,
  int32: 5,
  float32: 6,
  bool: 7,
  string: 8,
  array: 9,
  uint64: 10,
  int64: 11,
  float64: 12,
} as const;

/** A metadata value to write, and its type in the file. */
export type MetadataValue =
  | { readonly type: 'uint32' | 'int32' | 'float32'; readonly value: number }
  | { readonly type: 'bool'; readonly value: boolean }
  | { readonly type: 'string'; readonly value: string }
  | { readonly type: 'strings'; readonly value: readonly string[] }
  | { readonly type: 'int32s'; readonly value: readonly number[] };

/** A file's metadata, in the order in which they are written. */
export type Metadata = Readonly<Record<string, MetadataValue>>;

export const uint32 = (value: number): MetadataValue => ({ type: 'uint32', value });
export const float32 = (value: number): MetadataValue => ({ type: 'float32', value });
export const bool = (value: boolean): MetadataValue => ({ type: 'bool', value });
export const text = (value: string): MetadataValue => ({ type: 'string', value });
export const texts = (value: readonly string[]): MetadataValue => ({ type: 'strings', value });
export const int32s = (value: readonly number[]): MetadataValue => ({ type: 'int32s', value });

const number32 = (
  value: number,
  write: 'writeUInt32LE' | 'writeInt32LE' | 'writeFloatLE' = 'writeUInt32LE',
): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes[write](value);
  return bytes;
};

const number64 = (value: number): Buffer => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
};

/** Returns a string in the form that GGUF files use: its length in bytes, followed by its bytes. */
function encodeText(value: string): Buffer {
  const bytes = Buffer.from(value, 'utf8');
  return Buffer.concat([number64(bytes.length), bytes]);
}

function encodeValue(entry: MetadataValue): Buffer[] {
  switch (entry.type) {
    case 'uint32':
      return [number32(valueTypes.uint32), number32(entry.value)];
    case 'int32':
      return [number32(valueTypes.int32), number32(entry.value, 'writeInt32LE')];
    case 'float32':
      return [number32(valueTypes.float32), number32(entry.value, 'writeFloatLE')];
    case 'bool':
      return [number32(valueTypes.bool), Buffer.of(entry.value ? 1 : 0)];
    case 'string':
      return [number32(valueTypes.string), encodeText(entry.value)];
    case 'strings':
      return [...arrayStart(valueTypes.string, entry.value), ...entry.value.map(encodeText)];
    case 'int32s':
      return [
        ...arrayStart(valueTypes.int32, entry.value),
        ...entry.value.map((value) => number32(value, 'writeInt32LE')),
      ];
  }
}

const arrayStart = (elementType: number, { length }: readonly unknown[]): Buffer[] => [
  number32(valueTypes.array),
  number32(elementType),
  number64(length),
];

/** A tensor as described in a file's header. */
export interface TensorInfo {
  readonly name: string;
  /** The shape in row-major order. Files store the dimensions in reverse order. */
  readonly shape: readonly number[];
  /** ggml's number of the tensor's type. */
  readonly typeId: number;
  /** The offset of the tensor's first byte from the end of the header, in bytes. */
  readonly offset: number;
}

/** The alignment of tensors in bytes, unless `general.alignment` in the file states a different one. */
export const defaultAlignment = 32;

/** Returns the next multiple of the alignment. */
export const aligned = (bytes: number, alignment: number = defaultAlignment): number =>
  Math.ceil(bytes / alignment) * alignment;

/** Returns the bytes that precede the tensors of a GGUF file, padded to the alignment. */
export function encodeHeader(metadata: Metadata, tensors: readonly TensorInfo[]): Buffer {
  const entries = Object.entries(metadata);
  const header = Buffer.concat([
    Buffer.from('GGUF', 'latin1'),
    number32(3),
    number64(tensors.length),
    number64(entries.length),
    ...entries.flatMap(([key, value]) => [encodeText(key), ...encodeValue(value)]),
    ...tensors.flatMap(({ name, shape, typeId, offset }) => [
      encodeText(name),
      number32(shape.length),
      ...shape.toReversed().map(number64),
      number32(typeId),
      number64(offset),
    ]),
  ]);
  return Buffer.concat([header, Buffer.alloc(aligned(header.length) - header.length)]);
}
