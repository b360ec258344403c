import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const local = (path) => fileURLToPath(new URL(path, import.meta.url));

/**
 * Lists the modules that the preset loads in every test file of the package in `folder`. Packages without
 * fast-check do not load its module.
 */
export function setupFiles(folder = process.cwd()) {
  const { devDependencies = {} } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const hasProperties = 'fast-check' in devDependencies;
  return [local('./equal-bytes.mjs'), ...(hasProperties ? [local('./seeded-properties.mjs')] : [])];
}
