/**
 * TensorBoard's file format, encoded and decoded without libraries: a TFRecord frame around a protocol-buffer
 * `Event`.
 *   frame: u64 length | u32 masked CRC32C of the length | data | u32 masked CRC32C of the data   (little-endian)
 *   Event: 1 wall_time double | 2 step int64 | 3 file_version string | 5 summary | 7 session_log |
 *          10 source_metadata
 *   summary: 1 value, repeated: 1 tag string | 2 simple_value float
 *   session_log: 1 status enum (1: START)      source_metadata: 1 writer string
 */
export interface TensorboardEvent {
  /** Time of the event, in seconds since 1970. */
  readonly wallTime: number;
  readonly step: number;
  /** `brain.Event:2`; present only in the first event of a file. */
  readonly fileVersion?: string;
  /** The program that wrote the file; present only in the first event of a file. */
  readonly writer?: string;
  /** True if a session starts at `step`. TensorBoard then drops its existing points from this step on. */
  readonly isSessionStart?: true;
  readonly scalars?: ReadonlyArray<{ readonly tag: string; readonly value: number }>;
}

const frameOverhead = 16;

/** Returns the bytes of `event`, with its frame. */
export function encodeEventRecord(event: TensorboardEvent): Buffer {
  const data = encodeEvent(event);
  const record = Buffer.alloc(data.length + frameOverhead);
  record.writeBigUInt64LE(BigInt(data.length), 0);
  record.writeUInt32LE(maskedCrc32c(record.subarray(0, 8)), 8);
  data.copy(record, 12);
  record.writeUInt32LE(maskedCrc32c(data), 12 + data.length);
  return record;
}

/** An event, and the position in the file at which its record ends. */
export interface EventRecord {
  readonly event: TensorboardEvent;
  readonly end: number;
}

/**
 * Yields the records of `file`, up to its end or to the first record that is incomplete or has a wrong
 * checksum.
 */
export function* readEventRecords(file: Buffer): Generator<EventRecord> {
  let offset = 0;
  while (offset + frameOverhead <= file.length) {
    const length = Number(file.readBigUInt64LE(offset));
    const end = offset + frameOverhead + length;
    if (maskedCrc32c(file.subarray(offset, offset + 8)) !== file.readUInt32LE(offset + 8)) return;
    if (end > file.length) return;
    const data = file.subarray(offset + 12, offset + 12 + length);
    if (maskedCrc32c(data) !== file.readUInt32LE(end - 4)) return;
    yield { event: decodeEvent(data), end };
    offset = end;
  }
}

/** Wire types of protocol buffers. */
const wire = { varint: 0, fixed64: 1, bytes: 2, fixed32: 5 } as const;

function encodeEvent(event: TensorboardEvent): Buffer {
  const wallTime = Buffer.alloc(8);
  wallTime.writeDoubleLE(event.wallTime);
  const parts = [key(1, wire.fixed64), wallTime];
  if (event.step !== 0) parts.push(key(2, wire.varint), varint(event.step));
  if (event.fileVersion !== undefined) parts.push(bytesField(3, Buffer.from(event.fileVersion)));
  if (event.scalars !== undefined) {
    parts.push(bytesField(5, Buffer.concat(event.scalars.map(({ tag, value }) => encodeScalar(tag, value)))));
  }
  if (event.isSessionStart === true) {
    parts.push(bytesField(7, Buffer.concat([key(1, wire.varint), varint(sessionStart)])));
  }
  if (event.writer !== undefined) parts.push(bytesField(10, bytesField(1, Buffer.from(event.writer))));
  return Buffer.concat(parts);
}

/** The value of `SessionLog.START` in tensorflow/core/util/event.proto. */
const sessionStart = 1;

function encodeScalar(tag: string, value: number): Buffer {
  const simpleValue = Buffer.alloc(4);
  simpleValue.writeFloatLE(value);
  return bytesField(1, Buffer.concat([bytesField(1, Buffer.from(tag)), key(2, wire.fixed32), simpleValue]));
}

function key(field: number, type: number): Buffer {
  return varint(field * 8 + type);
}

function bytesField(field: number, content: Buffer): Buffer {
  return Buffer.concat([key(field, wire.bytes), varint(content.length), content]);
}

/**
 * Encodes `value` with seven bits per byte, the lowest bits first. The code divides instead of shifting,
 * because steps may need more than 32 bits.
 */
function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  while (rest >= 128) {
    bytes.push((rest % 128) + 128);
    rest = Math.floor(rest / 128);
  }
  return Buffer.from([...bytes, rest]);
}

interface Field {
  readonly number: number;
  /** A number if the field is a varint, otherwise the encoded bytes. */
  readonly value: number | Buffer;
}

function* readFields(message: Buffer): Generator<Field> {
  let offset = 0;
  const readVarint = (): number => {
    let value = 0;
    let scale = 1;
    for (;;) {
      const byte = message.readUInt8(offset);
      offset += 1;
      value += (byte % 128) * scale;
      if (byte < 128) return value;
      scale *= 128;
    }
  };
  while (offset < message.length) {
    const header = readVarint();
    const type = header % 8;
    const number = Math.floor(header / 8);
    if (type === wire.varint) {
      yield { number, value: readVarint() };
      continue;
    }
    const length = type === wire.fixed64 ? 8 : type === wire.fixed32 ? 4 : readVarint();
    yield { number, value: message.subarray(offset, offset + length) };
    offset += length;
  }
}

function decodeEvent(data: Buffer): TensorboardEvent {
  const event: { -readonly [name in keyof TensorboardEvent]: TensorboardEvent[name] } = {
    wallTime: 0,
    step: 0,
  };
  for (const { number, value } of readFields(data)) {
    if (number === 1) event.wallTime = (value as Buffer).readDoubleLE();
    if (number === 2) event.step = value as number;
    if (number === 3) event.fileVersion = String(value);
    if (number === 5) event.scalars = [...readFields(value as Buffer)].map((field) => decodeScalar(field));
    if (number === 7 && [...readFields(value as Buffer)][0]?.value === sessionStart)
      event.isSessionStart = true;
    if (number === 10) event.writer = String([...readFields(value as Buffer)][0]?.value ?? '');
  }
  return event;
}

function decodeScalar({ value: message }: Field): { tag: string; value: number } {
  let tag = '';
  let scalar = Number.NaN;
  for (const { number, value } of readFields(message as Buffer)) {
    if (number === 1) tag = String(value);
    if (number === 2) scalar = (value as Buffer).readFloatLE();
  }
  return { tag, value: scalar };
}

/**
 * The table for computing CRC-32C (Castagnoli, reflected polynomial 0x82F63B78) with one look-up per byte,
 * which is fast enough for small records.
 */
const crcTable = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
  return crc;
});

/**
 * Returns TFRecord's masked checksum: the CRC is rotated by 15 bits and a constant is added, because a plain
 * CRC is unreliable for data that contain CRCs.
 */
function maskedCrc32c(data: Buffer): number {
  let crc = 0xffffffff;
  for (const byte of data) crc = crcTable[(crc ^ byte) & 0xff]! ^ (crc >>> 8);
  crc = ~crc >>> 0;
  return (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0;
}
