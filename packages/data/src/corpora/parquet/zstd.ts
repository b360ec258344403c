import type { ZSTDDecoder } from 'zstddec';

/**
 * The largest page that is decompressed. The decoder has 32-bit addresses, so a larger page and its frames
 * may not fit into its memory.
 */
const maximumBytes = 3 * 2 ** 29;

let decoder: ZSTDDecoder | undefined;

/** Loads the decoder. This takes 0.1 seconds and is therefore done only for files with Zstandard pages. */
export async function loadZstd(): Promise<void> {
  const { ZSTDDecoder } = await import('zstddec');
  const loaded = new ZSTDDecoder();
  await loaded.init();
  decoder = loaded;
}

/**
 * Decompresses the frames of a page of `length` bytes with libzstd, which verifies their sizes, blocks,
 * tables and checksums. Throws an Error if the frames are damaged or do not contain `length` bytes.
 * `loadZstd` must be called first.
 */
export function decompressZstd(bytes: Uint8Array, length: number): Uint8Array {
  if (decoder === undefined) throw new Error('the decoder of Zstandard is not loaded');
  if (bytes.length + length > maximumBytes) {
    throw new Error(
      `it has a page of ${bytes.length} bytes that decompress to ${length}; at most ${maximumBytes} together`,
    );
  }
  // at least 1, because for 0 the decoder would allocate the size that the frame states
  const page = decoder.decode(bytes, Math.max(1, length));
  // After an error, the decoder returns no bytes.
  if (page.length === length) return page;
  const held = page.length === 0 ? 'are damaged' : `hold ${page.length} bytes`;
  throw new Error(`its frames of Zstandard ${held}, its header gives ${length} bytes`);
}
