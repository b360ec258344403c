import { crc32 } from 'node:zlib';
import { scanPartBytes, type ValueScan } from '../tensors/finite-values.js';

/**
 * The size in bytes (4 MiB) of a block with its own checksum. It is small enough that a rank which needs a
 * few rows reads little more. It is large enough that the checksums of 1 TB fit into a few megabytes of
 * manifest.
 */
export const checksumBlockBytes = 4 * 1024 * 1024;

/**
 * CRC-32 (ISO 3309, as in zlib) of consecutive blocks of a byte stream.
 *
 * CRC-32 is sufficient because a checkpoint must detect torn writes and bad disks, not forgery. CRC-32 misses
 * a random error in a 4 MiB block with probability 2^-32, and detects every burst error of up to 32 bits.
 * zlib computes it at 6 GB/s on one core, which is fast compared with the file system. SHA-256 needs SHA
 * instructions to reach 1.8 GB/s. The manifest contains the checksums, and is itself protected by SHA-256.
 */
export class BlockChecksums {
  readonly #scan: ValueScan | undefined;
  readonly #finished: number[] = [];
  #current = 0;
  #currentBytes = 0;

  /**
   * @param scan checks the values in the same pass. If given, every update must consist of complete elements
   */
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

  /**
   * Returns the checksums, one per block. The last block may be shorter. The list is empty for an empty
   * stream.
   */
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
 * Returns the CRC-32 of `bytes`. If `scan` is given, the values are checked in the same pass.
 *
 * @param options.start the CRC-32 of the preceding bytes
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
