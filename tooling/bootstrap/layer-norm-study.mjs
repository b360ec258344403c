#!/usr/bin/env node
/**
 * npm run layer-norm-study -- FLAGS: makes the checkout ready and runs the study of
 * docs/studies/layer-norm-placement.md.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { answerHelp } from './answer-help.mjs';
import { bootstrap, root, toolEnvironment } from './bootstrap.mjs';

answerHelp(`usage: npm run layer-norm-study [-- FLAGS]

Builds what is not built yet, and runs the study of docs/studies/layer-norm-placement.md, which describes what it takes.`);
bootstrap(['build', 'build:native'], ['@mtl/bert-train']);
const script = join(root, 'apps/bert-train/study/layer-norm.mjs');
const args = [script, ...process.argv.slice(2)];
process.exit(
  spawnSync(process.execPath, args, { cwd: root, env: toolEnvironment(), stdio: 'inherit' }).status ?? 1,
);
