#!/usr/bin/env node
/** npm run parity: makes the checkout ready and compares training runs in many layouts with one process. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { answerHelp } from './answer-help.mjs';
import { bootstrap, root, toolEnvironment } from './bootstrap.mjs';

answerHelp(`usage: npm run parity [-- FLAGS]

Builds what is not built yet, and compares training runs in many layouts of processes with one process.

  --steps N    Optimizer steps. [100]
  --only TEXT  Layouts whose name contains it.
  --few        A sample of the layouts, or of the faults, with every axis and model.
  --all        Everything crossed with everything.
  --faults     Injects faults instead, and fails when one is not noticed.
  --each-step  In float32 also compares every step by itself, taken from the state that one process had before it.
               Without it, layouts do whose norms alone are out of bounds, or in which a tie decided about experts.
  --json FILE  Writes the results.`);
bootstrap(['build', 'build:native']);
const script = join(root, 'packages/runs/parity/parity.mjs');
const args = [script, ...process.argv.slice(2)];
process.exit(
  spawnSync(process.execPath, args, { cwd: root, env: toolEnvironment(), stdio: 'inherit' }).status ?? 1,
);
