import { crc32 } from 'node:zlib';
import { scanPartBytes, type ValueScan } from '../tensors/finite-values.js';

/**
 * Bytes of a block of stored data that has its own checksum (4 MiB): small enough that a rank which needs a
 * few rows reads little more than these rows, large enough that the checksums of 1 TB fit in a few megabytes
 * of manifest.
 */
export const checksumBlockBytes = 4 * 1024 * 1024;

/**
 * CRC-32 (ISO 3309, as in zlib) of consecutive blocks of a byte stream.
 *
 * It is CRC-32 because a checkpoint must notice torn writes and bad disks, not forgers. One CRC misses a
 * random error with probability 2^-32 per 4 MiB block and no burst of up to 32 bits, and zlib's runs at 6
 * GB/s on one core where SHA-256 needs SHA instructions for 1.8 GB/s: it costs little compared with the file
 * system. The manifest that holds the checksums is itself protected by SHA-256.
 */
export class BlockChecksums {
  readonly #scan: ValueScan | undefined;
  readonly #finished: number[] = [];
  #current = 0;
  #currentBytes = 0;

  /** @param scan takes the bytes in the same pass; they are then whole elements in every update */
  constructor(scan?: ValueScan) {
    this.#scan = scan;
  }

  update(bytes: Uint8Array): void {
    let offset = 0;
    while (offset < bytes.length) {
      const take = Math.min(checksumBlockBytes - this.#currentBytes, bytes.length - offset);
      this.#current = computeChecksum(bytes.subarray(offset, offset + take), {
        start: this.#current,
        scan: this.#scan,
      });
      this.#currentBytes += take;
      offset += take;
      if (this.#currentBytes === checksumBlockBytes) this.#close();
    }
  }

  /** Returns the checksums, one per block, the last block possibly short; none for an empty stream. */
  finish(): number[] {
    if (this.#currentBytes > 0) this.#close();
    return this.#finished;
  }

  #close(): void {
    this.#finished.push(this.#current);
    this.#current = 0;
    this.#currentBytes = 0;
  }
}

/**
 * Returns the CRC-32 of bytes, which go through a scan of their values in the same pass where there is one.
 *
 * @param options.start the CRC-32 of the bytes before
 */
export function computeChecksum(
  bytes: Uint8Array,
  { start = 0, scan }: { readonly start?: number; readonly scan?: ValueScan | undefined } = {},
): number {
  if (scan === undefined) return crc32(bytes, start);
  let checksum = start;
  for (let offset = 0; offset < bytes.length; offset += scanPartBytes) {
    const part = bytes.subarray(offset, offset + scanPartBytes);
    checksum = crc32(part, checksum);
    scan.update(part);
  }
  return checksum;
}
