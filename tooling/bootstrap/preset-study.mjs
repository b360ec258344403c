#!/usr/bin/env node
/**
 * npm run preset-study -- FLAGS: makes the checkout ready and runs the study of
 * docs/studies/default-presets.md.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { answerHelp } from './answer-help.mjs';
import { bootstrap, root, toolEnvironment } from './bootstrap.mjs';

answerHelp(`usage: npm run preset-study [-- FLAGS]

Builds what is not built yet, and runs the study of docs/studies/default-presets.md, which describes what it takes.`);
bootstrap(['build', 'build:native'], ['@mtl/gpt-train', '@mtl/cli']);
const script = join(root, 'apps/gpt-train/study/default-presets.mjs');
const args = [script, ...process.argv.slice(2)];
process.exit(
  spawnSync(process.execPath, args, { cwd: root, env: toolEnvironment(), stdio: 'inherit' }).status ?? 1,
);
