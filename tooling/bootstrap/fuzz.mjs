#!/usr/bin/env node
/** npm run fuzz: makes the checkout ready and reads damaged files of every format. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { asksForHelp } from './answer-help.mjs';
import { bootstrap, root, toolEnvironment } from './bootstrap.mjs';

// which needs no packages
if (!asksForHelp(process.argv.slice(2))) bootstrap(['build', 'build:native']);
const args = [join(root, 'tooling/fuzz/fuzz.mjs'), ...process.argv.slice(2)];
const options = { cwd: root, env: toolEnvironment(), stdio: 'inherit' };
process.exit(spawnSync(process.execPath, args, options).status ?? 1);
