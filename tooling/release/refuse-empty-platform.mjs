#!/usr/bin/env node
/** The prepack script of every platform package. It fails if the package has not been built. */
import { existsSync, readFileSync } from 'node:fs';

const { name, files } = JSON.parse(readFileSync('package.json', 'utf8'));
const missing = files.filter((file) => !existsSync(file));
if (missing.length > 0) {
  const build = files.some((file) => file.endsWith('.wasm')) ? 'build:wasm --package' : 'build:platform';
  console.error(`error[MTL_PACK]: ${name} lacks ${missing.join(', ')}\n  remedy: npm run dev -- ${build}`);
  process.exit(2);
}
