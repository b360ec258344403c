import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { Decompress as ZstdStream } from 'fzstd';
import { compressors } from 'hyparquet-compressors';
import { ByteCursor } from './byte-cursor.js';

/** Parquet's compression codecs by their number; LZO has no free decoder. */
export const parquetCodecs = [
  'UNCOMPRESSED',
  'SNAPPY',
  'GZIP',
  'LZO',
  'BROTLI',
  'LZ4',
  'ZSTD',
  'LZ4_RAW',
] as const;
export type ParquetCodec = (typeof parquetCodecs)[number];

/** Decompresses a page into exactly `length` bytes; throws an Error when it holds more or fewer. */
export function decompressPage(options: {
  readonly bytes: Uint8Array;
  readonly codec: ParquetCodec;
  readonly length: number;
}): Uint8Array {
  const { bytes, length } = options;
  const page = decompress(options);
  if (page.length === length) return page;
  const what = bytes === page ? 'holds' : 'decompresses to';
  throw new Error(`it ${what} ${page.length} bytes, its header gives ${length}`);
}

function decompress(options: {
  readonly bytes: Uint8Array;
  readonly codec: ParquetCodec;
  readonly length: number;
}): Uint8Array {
  const { bytes, codec, length } = options;
  const limit = { maxOutputLength: Math.max(1, length) };
  switch (codec) {
    case 'UNCOMPRESSED':
      return bytes;
    case 'SNAPPY':
      return snappy(bytes, length);
    case 'GZIP':
      return gunzipSync(bytes, limit);
    case 'BROTLI':
      return brotliDecompressSync(bytes, limit);
    case 'ZSTD':
      return zstd(bytes, length);
    case 'LZ4_RAW':
      return lz4Block(bytes, length);
    case 'LZ4':
      return lz4Framed(bytes, length);
    default:
      throw new Error(`it is compressed with ${codec}, which is not supported`);
  }
}

/** The preamble of the bytes is their decompressed length. */
function snappy(bytes: Uint8Array, length: number): Uint8Array {
  const announced = new ByteCursor(bytes).varint();
  if (announced !== length)
    throw new Error(`it decompresses to ${announced} bytes, its header gives ${length}`);
  return length === 0 ? new Uint8Array(0) : compressors.SNAPPY!(bytes, length);
}

/** As a stream: given a whole buffer, the decoder fills up a frame that is too short with zeros. */
function zstd(bytes: Uint8Array, length: number): Uint8Array {
  const output = new Uint8Array(length);
  let filled = 0;
  const stream = new ZstdStream((part) => {
    if (part.length > length - filled) throw new Error('it decompresses to more bytes than its header gives');
    output.set(part, filled);
    filled += part.length;
  });
  stream.push(bytes, true);
  return output.subarray(0, filled);
}

/** Hadoop's frames, each with its two lengths before it; some writers put a bare block there. */
function lz4Framed(bytes: Uint8Array, length: number): Uint8Array {
  const cursor = new ByteCursor(bytes);
  const parts: Uint8Array[] = [];
  let total = 0;
  while (cursor.remaining >= 8) {
    const lengths = cursor.take(8);
    const [output, input] = [lengths.readUInt32BE(0), lengths.readUInt32BE(4)];
    if (input > cursor.remaining || output > length - total) return lz4Block(bytes, length);
    parts.push(lz4Block(cursor.take(input), output));
    total += output;
  }
  return cursor.remaining === 0 && total === length ? Buffer.concat(parts) : lz4Block(bytes, length);
}

/** One LZ4 block: literals and copies of what was decompressed before. */
function lz4Block(bytes: Uint8Array, length: number): Uint8Array {
  const cursor = new ByteCursor(bytes);
  const output = new Uint8Array(length);
  let filled = 0;
  const more = (short: number): number => {
    let total = short;
    if (short !== 15) return total;
    for (let byte = 255; byte === 255; total += byte) byte = cursor.unsigned(1);
    return total;
  };
  const room = (wanted: number): void => {
    if (wanted > length - filled) throw new Error('it decompresses to more bytes than its header gives');
  };
  while (cursor.remaining > 0) {
    const token = cursor.unsigned(1);
    const literals = cursor.take(more(token >>> 4));
    room(literals.length);
    output.set(literals, filled);
    filled += literals.length;
    if (cursor.remaining === 0) break;
    const distance = cursor.unsigned(2);
    if (distance === 0 || distance > filled) throw new Error('it copies from before its start');
    const copied = more(token & 15) + 4;
    room(copied);
    // Byte by byte: a copy may overlap what it writes.
    for (const end = filled + copied; filled < end; filled++) output[filled] = output[filled - distance]!;
  }
  return output.subarray(0, filled);
}
