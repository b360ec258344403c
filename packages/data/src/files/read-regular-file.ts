import { closeSync } from 'node:fs';
import { openRegularFile } from './open-regular-file.js';
import { readFully } from './read-fully.js';

/** A file that is longer than its reader takes. */
export class FileTooLargeError extends Error {}

// What one read of readFileSync takes, too.
const maximum = 2 ** 31 - 1;

/**
 * The bytes of a regular file of at most `maximumBytes`. Throws as `openRegularFile` (see `fileProblem`), and
 * a `FileTooLargeError` before memory is taken.
 */
export function readRegularFile(path: string, maximumBytes = maximum): Buffer {
  const { descriptor, size } = openRegularFile(path);
  try {
    if (size > maximumBytes) throw new FileTooLargeError(`is ${size} bytes long`);
    const bytes = Buffer.allocUnsafeSlow(size);
    return bytes.subarray(0, readFully(descriptor, bytes, 0));
  } finally {
    closeSync(descriptor);
  }
}
