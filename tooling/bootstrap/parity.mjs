#!/usr/bin/env node
/** npm run parity: makes the checkout ready and holds trainings in many layouts against one process. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { bootstrap, root, toolEnvironment } from './bootstrap.mjs';

bootstrap(['build', 'build:native']);
const script = join(root, 'packages/recipes/parity/parity.mjs');
const args = [script, ...process.argv.slice(2)];
process.exit(
  spawnSync(process.execPath, args, { cwd: root, env: toolEnvironment(), stdio: 'inherit' }).status ?? 1,
);
