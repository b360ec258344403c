#!/usr/bin/env node
/** npm run bench: makes the checkout ready and runs the benchmarks of every package, one after the other. */
import { spawnSync } from 'node:child_process';
import { answerHelp } from './answer-help.mjs';
import { bootstrap, root, toolEnvironment } from './bootstrap.mjs';

answerHelp(`usage: npm run bench [-- TURBO FLAGS]

Builds what is not built yet, and runs the benchmarks of every package, one after the other.

  --filter=@mtl/NAME  Only those of one package.`);
bootstrap(['build', 'build:native']);
const args = [
  'run',
  'bench',
  '--concurrency=1',
  '--continue',
  '--output-logs=full',
  ...process.argv.slice(2),
];
process.exit(spawnSync('turbo', args, { cwd: root, env: toolEnvironment(), stdio: 'inherit' }).status ?? 1);
