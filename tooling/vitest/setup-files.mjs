import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const local = (path) => fileURLToPath(new URL(path, import.meta.url));

/**
 * Lists the modules that vitest loads before every test file of the package in `folder`. The module for
 * fast-check is loaded only by packages that depend on fast-check.
 */
export function setupFiles(folder = process.cwd()) {
  const { devDependencies = {} } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const hasProperties = 'fast-check' in devDependencies;
  return [local('./equal-bytes.mjs'), ...(hasProperties ? [local('./seeded-properties.mjs')] : [])];
}
