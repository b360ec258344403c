#!/usr/bin/env node
/** npm run plan-against-runs: makes the checkout ready and compares mtl plan with training runs here. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { answerHelp } from './answer-help.mjs';
import { bootstrap, root, toolEnvironment } from './bootstrap.mjs';

answerHelp(`usage: npm run plan-against-runs [-- FLAGS]

Builds what is not built yet, calibrates this machine (two cores or more), predicts 18 training runs in one process and in two,
writes the predictions down, measures the runs, and prints predicted and measured step times and memory with their
errors. Takes about seven minutes, in which nothing else should run on the machine. Ends with status 1 where the errors are
above 10 % (median of step times), 20 % (worst) or 1 % (memory).

  --profile FILE  Predicts with this profile instead of calibrating.
  --steps N       Steps of each run, of which the first four are not counted. [16]
  --only TEXT     Runs whose name contains it.
  --parts         Prints the parts of each step, predicted and measured.
  --output DIR    Where profile, predictions and results are written. [.cache/plan-against-runs]`);
bootstrap(['build', 'build:native']);
const script = join(root, 'tooling/plan-against-runs/plan-against-runs.mjs');
const args = [script, ...process.argv.slice(2)];
process.exit(
  spawnSync(process.execPath, args, { cwd: root, env: toolEnvironment(), stdio: 'inherit' }).status ?? 1,
);
