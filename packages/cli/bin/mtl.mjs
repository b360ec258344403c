#!/usr/bin/env node
// The command is a source file instead of a build output, so that package managers can link it before the
// build.
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
  // in a checkout the command runs the sources, so that help works without a build
  const { runSources } = await import('@mtl/tooling/run-sources');
  process.exitCode = runSources(fileURLToPath(source), words);
} else {
  console.error('error[MTL_BOOTSTRAP]: the command mtl is not built yet\n  remedy: npm run bootstrap');
  process.exitCode = 2;
}
