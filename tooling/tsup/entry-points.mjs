import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Returns the entry points of the package in `folder`: the sources that the package exports, and src/main.ts
 * if it exists.
 */
export function entryPoints(folder = process.cwd()) {
  const { exports = {} } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const exported = Object.values(exports).flatMap((conditions) => conditions['@mtl/source'] ?? []);
  const program = existsSync(join(folder, 'src/main.ts')) ? ['src/main.ts'] : [];
  return [...exported.map((path) => path.replace(/^\.\//, '')), ...program];
}
