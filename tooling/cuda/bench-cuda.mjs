#!/usr/bin/env node
/**
 * npm run bench:cuda: makes the checkout ready, builds the CUDA library, and runs both benchmarks of a card.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { bootstrap, root, toolEnvironment } from '../bootstrap/bootstrap.mjs';

const args = process.argv.slice(2);
bootstrap(['build', 'build:native']);
if (!args.includes('--emulation')) bootstrap(['build:cuda']);
const options = { cwd: root, env: toolEnvironment(), stdio: 'inherit' };
const results = ['kernels', 'bench'].map((stage) => {
  // arguments after -- are the second's: models, steps
  const script = [
    join(root, 'tooling/cuda/on-card.mjs'),
    stage,
    '--out',
    join(root, 'apps/gpt-train/build/bench-cuda'),
  ];
  return spawnSync(process.execPath, [...script, ...args], options).status ?? 1;
});
process.exit(Math.max(...results));
