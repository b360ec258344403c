#!/usr/bin/env node
/**
 * npm run dev -- bench:cuda: prepares the checkout, builds the CUDA library, and runs both GPU benchmarks.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { answerHelp } from '../bootstrap/answer-help.mjs';
import { bootstrap, root, toolEnvironment } from '../bootstrap/bootstrap.mjs';

answerHelp(`usage: npm run dev -- bench:cuda [FLAGS]

Builds what is not built yet, the CUDA library too, and runs both benchmarks of a GPU.

  --emulation  Does not build the CUDA library: runs on the processor.`);
const args = process.argv.slice(2);
bootstrap(['build', 'build:native']);
if (!args.includes('--emulation')) bootstrap(['build:cuda']);
const options = { cwd: root, env: toolEnvironment(), stdio: 'inherit' };
const results = ['kernels', 'bench'].map((stage) => {
  // arguments after --, such as models and steps, go to the second benchmark
  const script = [
    join(root, 'tooling/cuda/run-on-gpu.mjs'),
    stage,
    '--out',
    join(root, 'apps/gpt-train/build/bench-cuda'),
  ];
  return spawnSync(process.execPath, [...script, ...args], options).status ?? 1;
});
process.exit(Math.max(...results));
