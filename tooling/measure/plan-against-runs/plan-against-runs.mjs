#!/usr/bin/env node
/**
 * npm run dev -- plan-against-runs: calibrates this machine, predicts training runs with mtl plan, saves the
 * predictions, and then measures the runs. Prints a table of both. This program is not part of CI, because
 * nothing else should run at the same time.
 *   node plan-against-runs.mjs [--profile FILE] [--steps 16] [--only TEXT] [--output DIR] [--parts]
 * With --parts, also prints the predicted and measured time of each kind of work in a step
 * (--compare-with-plan).
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { readMetrics } from '../../processes/read-metrics.mjs';
import { comparisonTable, isWithinBars, measuredStep } from './compare-steps.mjs';
import { trainingRuns } from './training-runs.mjs';

const { values: options } = parseArgs({
  options: {
    profile: { type: 'string' },
    steps: { type: 'string', default: '16' },
    only: { type: 'string', default: '' },
    output: { type: 'string', default: '.cache/plan-against-runs' },
    parts: { type: 'boolean', default: false },
  },
});

const root = fileURLToPath(new URL('../../..', import.meta.url));
const mtl = join(root, 'packages/cli/bin/mtl.mjs');
const started = performance.now();
const elapsed = () => `${((performance.now() - started) / 1000).toFixed(0)} s`;

/**
 * Returns the output of an mtl command. If the command fails, ends this program with the command's errors.
 */
function runMtl(words, variables = {}) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [mtl, ...words], {
    cwd: root,
    encoding: 'utf8',
    env: { ...process.env, ...variables },
    maxBuffer: 2 ** 28,
  });
  if (status === 0) return stdout;
  console.error(`mtl ${words.join(' ')}\n${stdout}${stderr}`);
  process.exit(1);
}

function predictedStep({ model, numProcesses, flags }, profile) {
  const words = ['--model', model, '--num-processes', `${numProcesses}`, '--json', '--', ...flags];
  const plan = JSON.parse(runMtl(['plan', '--profile', profile, ...words]));
  return {
    seconds: plan.iterationSeconds,
    peakBytes: Math.max(...plan.ranks.map(({ memoryBytes }) => memoryBytes)),
    breakdown: plan.breakdown,
  };
}

/** Matches the comparison that a run prints at its end. */
const comparison = /compared with the plan[\s\S]*?slower than planned:.*/g;

function runSteps({ model, numProcesses, flags }, { directory, profile }) {
  const program = join(root, `apps/${model}-train`);
  const ending = ['--exit-interval', options.steps, '--save', directory];
  if (options.parts) ending.push('--compare-with-plan');
  const words = ['run', '--nproc-per-node', `${numProcesses}`, program, '--', ...flags, ...ending];
  const printed = runMtl(words, { MTL_PROFILE: profile });
  const steps = readMetrics(join(directory, 'metrics.jsonl'));
  rmSync(directory, { recursive: true, force: true });
  const parts = printed.match(comparison)?.at(-1);
  return { ...measuredStep(steps), ...(parts && { parts }) };
}

const output = join(root, options.output);
mkdirSync(output, { recursive: true });
const runs = trainingRuns.filter(({ name }) => name.includes(options.only));
const profile = options.profile ?? join(output, 'profile.json');
if (options.profile === undefined) {
  console.error('calibrating');
  process.stdout.write(runMtl(['calibrate', '--output', profile]));
}
console.error(`${elapsed()}: predicting ${runs.length} runs`);
const predictions = runs.map((run) => ({ ...run, predicted: predictedStep(run, profile) }));
const at = new Date().toISOString();
writeFileSync(
  join(output, 'predictions.json'),
  `${JSON.stringify({ at, device: JSON.parse(readFileSync(profile, 'utf8')).hardware.device, predictions }, undefined, 2)}\n`,
);
const results = predictions.map((run, index) => {
  console.error(`${elapsed()}: measuring ${index + 1} of ${runs.length}: ${run.name}`);
  return { ...run, measured: runSteps(run, { directory: join(output, `run-${index}`), profile }) };
});
writeFileSync(join(output, 'results.json'), `${JSON.stringify(results, undefined, 2)}\n`);
const table = comparisonTable(results);
writeFileSync(join(output, 'table.md'), table);
console.log(table);
for (const { name, measured } of results) if (measured.parts) console.log(`${name}: ${measured.parts}\n`);
console.error(`${elapsed()}; predictions, measurements and table are in ${output}`);
process.exitCode = isWithinBars(results) ? 0 : 1;
