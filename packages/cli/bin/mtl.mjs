#!/usr/bin/env node
// A file of its own, and not the build's, so that package managers can link the command before anything is
// built.
import { existsSync } from 'node:fs';
import * as module from 'node:module';
import { fileURLToPath } from 'node:url';

const main = new URL('../dist/main.js', import.meta.url);
const source = new URL('../src/main.ts', import.meta.url);
const words = process.argv.slice(2);
const asksForHelp = words[0] === 'help' || words.includes('--help') || words.includes('-h');
module.enableCompileCache?.(); // from Node.js 22.1 on
if (existsSync(main)) {
  await import(main.href);
} else if (asksForHelp && existsSync(source)) {
  // in a checkout: help needs no build
  const { runSources } = await import('@mtl/tooling/run-sources');
  process.exitCode = runSources(fileURLToPath(source), words);
} else {
  console.error('error[MTL_BOOTSTRAP]: the command mtl is not built yet\n  remedy: npm run bootstrap');
  process.exitCode = 2;
}
