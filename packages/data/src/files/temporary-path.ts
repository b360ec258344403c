import { randomBytes } from 'node:crypto';

/**
 * A name in the folder of `path` (same file system, so that a rename is atomic) that no other writer uses.
 */
export function temporaryPath(path: string): string {
  return `${path}.${process.pid}-${randomBytes(4).toString('hex')}.tmp`;
}
