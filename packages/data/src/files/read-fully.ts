import { readSync } from 'node:fs';

/**
 * Fills `view` from `position` of an open file; returns the bytes read, fewer only at the end of the file
 * (one read(2) may return less than asked for, and never more than 2 GiB).
 */
export function readFully(descriptor: number, view: ArrayBufferView, position: number): number {
  const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
  let done = 0;
  while (done < bytes.length) {
    const count = readSync(descriptor, bytes, done, Math.min(bytes.length - done, 1 << 30), position + done);
    if (count === 0) break;
    done += count;
  }
  return done;
}
