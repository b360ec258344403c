#!/usr/bin/env node
/**
 * npm run pretrained-against-scratch -- [DIRECTORY] [FLAGS]: makes the checkout ready and asks whether
 * pretraining pays, as docs/benchmarks/bert.md says.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { answerHelp } from './answer-help.mjs';
import { bootstrap, root, toolEnvironment } from './bootstrap.mjs';

answerHelp(`usage: npm run pretrained-against-scratch [-- [DIRECTORY] [FLAGS]]

Builds what is not built yet, and runs what docs/benchmarks/bert.md describes.`);
bootstrap(['build', 'build:native'], ['@mtl/bert-train', '@mtl/cli']);
const script = join(root, 'apps/bert-train/bench/pretrained-against-scratch.mjs');
const args = [script, ...process.argv.slice(2)];
process.exit(
  spawnSync(process.execPath, args, { cwd: root, env: toolEnvironment(), stdio: 'inherit' }).status ?? 1,
);
