import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Returns a digest of the names and contents of all files in a directory and its subfolders. A test compares
 * it with the digest of the files that a different program has read, to detect changes.
 *
 * @param {string} directory
 * @returns {string} SHA-256, hexadecimal
 */
export function digestOfDirectory(directory) {
  const names = readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .filter((name) => statSync(join(directory, name)).isFile())
    .sort();
  const hash = createHash('sha256');
  for (const name of names) {
    const bytes = readFileSync(join(directory, name));
    hash.update(`${name}\0${bytes.length}\0`).update(bytes);
  }
  return hash.digest('hex');
}
