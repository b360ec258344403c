#!/usr/bin/env node
/**
 * npm run parity: trains a small GPT and a small BERT with dropout in many layouts of processes and holds losses, gradient norms and the
 * gradients of the first step against one process.
 *   node parity.mjs [--steps 100] [--only TEXT] [--all | --faults] [--json FILE]
 * With --all it crosses everything with everything. With --faults it makes mistakes on purpose instead, and fails when one
 * is not noticed by the check that is there for it.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { atMostAtOnce } from '@mtl/tooling/at-most-at-once';

import { compareRuns, readRun } from './compare-runs.mjs';
import { allLayouts, boundsOf, faults, layouts, normAfter, traits as traitFlags } from './layouts.mjs';

const { values: options } = parseArgs({
  options: {
    steps: { type: 'string', default: '100' },
    only: { type: 'string', default: '' },
    all: { type: 'boolean', default: false },
    faults: { type: 'boolean', default: false },
    json: { type: 'string' },
  },
});

const root = fileURLToPath(new URL('../../..', import.meta.url));
const mtl = join(root, 'packages/cli/bin/mtl.mjs');
const rank = fileURLToPath(new URL('rank.mjs', import.meta.url));
/** A recipe whose loss falls by more than 1 nat in 100 steps, dropout included, and that does not amplify rounding. */
const recipe = [
  ...['--hidden-size', '64', '--num-attention-heads', '4', '--seq-length', '32'],
  ...[
    '--micro-batch-size',
    '1',
    '--global-batch-size',
    '8',
    '--attention-dropout',
    '0.1',
    '--hidden-dropout',
    '0.1',
  ],
  ...[
    '--lr',
    '5e-4',
    '--lr-warmup-iters',
    '10',
    '--lr-decay-style',
    'cosine',
    '--clip-grad',
    '1',
    '--seed',
    '17',
  ],
  ...['--eval-iters', '0', '--log-interval', '1000', '--threads', '1'],
];
/** In nats: a recipe that does not learn hides mistakes. Fewer steps than the default may not get there. */
const leastFall = options.steps === '100' ? 0.5 : 0;
/** Longest a run may take. */
const deadlineMs = 300_000;
/** Processes start and wait for each other: a second training uses what the first leaves idle. */
const numAtOnce = 2;
const launchers = new Set();
const directory = mkdtempSync(join(tmpdir(), 'mtl-parity-'));

/** Trains in a layout; resolves to what the run left. */
function train({ model, name, numProcesses, numLayers, flags, precision, fault }) {
  const place = mkdtempSync(join(directory, 'run-'));
  const metrics = join(place, 'metrics.jsonl');
  const gradients = join(place, 'gradients');
  const argv = [
    ...[mtl, 'run', '--nproc-per-node', String(numProcesses), rank, '--'],
    ...[
      ...recipe,
      ...flags,
      '--num-layers',
      String(numLayers),
      '--train-iters',
      options.steps,
      '--metrics-jsonl',
      metrics,
    ],
    ...(precision === 'bf16' ? ['--bf16'] : []),
  ];
  const variables = {
    MTL_PARITY_MODEL: model,
    MTL_PARITY_GRADIENTS: gradients,
    ...(fault === undefined ? {} : { MTL_PARITY_FAULT: fault }),
  };
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, argv, { cwd: root, env: { ...process.env, ...variables } });
    // ranks die with their launcher, and the launcher with this process or at the deadline
    launchers.add(child);
    const deadline = setTimeout(() => child.kill('SIGKILL'), deadlineMs);
    let output = '';
    child.stdout.on('data', (text) => {
      output += text;
    });
    child.stderr.on('data', (text) => {
      output += text;
    });
    child.on('close', (status) => {
      clearTimeout(deadline);
      launchers.delete(child);
      if (status === 0) resolve(readRun({ metrics, gradients }));
      else
        reject(
          new Error(`${name} ended with status ${status}:\n${output.split('\n').slice(-20).join('\n')}`),
        );
    });
  });
}

/** Which bounds a comparison exceeds. */
function exceeded(comparison, { loss, gradientNorm, gradients }) {
  return [
    ...(comparison.loss <= loss ? [] : ['loss']),
    ...(comparison.gradientNorm <= gradientNorm ? [] : ['gradientNorm']),
    ...(comparison.gradients.difference <= gradients ? [] : ['gradients']),
  ];
}

/** The run of one process that a layout is held against. */
const referenceOf = ({ model, precision, numLayers, traits }) =>
  `${model.toUpperCase()} of ${numLayers} layers in ${precision}${traits.includes(normAfter) ? `, ${normAfter}` : ''}`;

const labelOf = ({ name, fault }) => (fault === undefined ? name : `${name}: ${fault}`);
const scientific = (value) => value.toExponential(1).padStart(9);

function row(label, { loss, gradientNorm, gradients }, verdict) {
  const worst = `${scientific(gradients.difference)}  ${gradients.name}`;
  return `${label} ${scientific(loss)} ${scientific(gradientNorm)} ${worst.padEnd(58)} ${verdict}`;
}

async function main() {
  const chosen = options.faults ? faults : options.all ? allLayouts : layouts;
  const cases = chosen.filter(({ name, fault = '' }) => `${name} ${fault}`.includes(options.only));
  const wanted = new Map(cases.map((each) => [referenceOf(each), each]));
  const references = new Map();
  const alone = atMostAtOnce({ limit: numAtOnce, items: [...wanted.values()] }, (each) => {
    const { model, precision, numLayers, traits } = each;
    const flags = traits.includes(normAfter) ? traitFlags[normAfter] : [];
    return train({ name: 'one process', numProcesses: 1, model, flags, precision, numLayers });
  });
  for (const [index, key] of [...wanted.keys()].entries()) {
    const reference = await alone[index];
    const [first, last] = [reference.steps[0].lm_loss, reference.steps.at(-1).lm_loss];
    console.log(
      `one process, ${key}: loss ${first.toFixed(4)} to ${last.toFixed(4)} in ${options.steps} steps`,
    );
    if (!options.faults && first - last < leastFall) {
      throw new Error(`the loss of ${key} falls by less than ${leastFall}: it proves nothing`);
    }
    references.set(key, reference);
  }
  const width = Math.max(...cases.map((each) => labelOf(each).length));
  console.log(`\n${'largest relative difference'.padEnd(width)}      loss grad norm  gradients of step 1`);
  const results = [];
  const runs = atMostAtOnce({ limit: numAtOnce, items: cases }, train);
  for (const [index, each] of cases.entries()) {
    const comparison = compareRuns(await runs[index], references.get(referenceOf(each)));
    const broken = exceeded(comparison, boundsOf(each));
    const isGood = options.faults ? broken.includes(each.noticedBy) : broken.length === 0;
    const verdict = broken.length > 0 ? `${broken.join(', ')} out of bounds` : 'ok';
    console.log(row(labelOf(each).padEnd(width), comparison, verdict));
    results.push({ ...each, ...comparison, broken, isGood });
  }
  if (options.json !== undefined) writeFileSync(options.json, `${JSON.stringify(results, null, 2)}\n`);
  const numBad = results.filter(({ isGood }) => !isGood).length;
  const what = options.faults
    ? 'fault(s) not noticed by the check that is there for it'
    : 'layout(s) differ from one process';
  console.log(numBad === 0 ? `\nall ${results.length} as they should be` : `\n${numBad} ${what}`);
  return numBad === 0 && results.length > 0 ? 0 : 1;
}

process.once('exit', () => {
  // after an error others may still run, and write
  for (const launcher of launchers) launcher.kill('SIGKILL');
  rmSync(directory, { recursive: true, force: true, maxRetries: 10 });
});
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1));
const status = await main().catch((error) => {
  console.error(error);
  return 1;
});
process.exit(status);
