#!/usr/bin/env node
// A file of its own, and not the build's, so that package managers can link the command before anything is
// built.
import { existsSync } from 'node:fs';

const main = new URL('../dist/main.js', import.meta.url);
if (existsSync(main)) {
  await import(main.href);
} else {
  console.error('error[MTL_BOOTSTRAP]: the command mtl is not built yet\n  remedy: npm run bootstrap');
  process.exitCode = 2;
}
