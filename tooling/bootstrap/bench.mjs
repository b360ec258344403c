#!/usr/bin/env node
/** npm run bench: makes the checkout ready and runs the benchmarks of every package, one after the other. */
import { spawnSync } from 'node:child_process';
import { bootstrap, root, toolEnvironment } from './bootstrap.mjs';

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
