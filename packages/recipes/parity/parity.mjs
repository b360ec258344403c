#!/usr/bin/env node
/**
 * npm run parity: trains a small GPT, a small BERT and a small Llama with dropout in many layouts of
 * processes and compares losses, gradient norms and the gradients of the first step with one process.
 *   node parity.mjs [--steps 100] [--only TEXT] [--few] [--all | --faults] [--json FILE]
 * With --few it takes a sample of these, or of the faults; with --all it crosses everything with everything.
 * With --faults it injects faults instead, and fails when the check for one does not notice it.
 */
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { atMostAtOnce } from '@mtl/tooling/at-most-at-once';

import { mergeOptions } from '../test/support/merge-options.mjs';
import { compareRuns, readRun } from './compare-runs.mjs';
import {
  allLayouts,
  boundsOf,
  documents,
  faults,
  layouts,
  modelOptions,
  traits as optionsOfTraits,
  traitsOfBoth,
} from './layouts.mjs';
import { shortDocuments } from './short-documents.mjs';

const { values: asked } = parseArgs({
  options: {
    steps: { type: 'string', default: '100' },
    only: { type: 'string', default: '' },
    all: { type: 'boolean', default: false },
    faults: { type: 'boolean', default: false },
    few: { type: 'boolean', default: false },
    json: { type: 'string' },
  },
});

const root = fileURLToPath(new URL('../../..', import.meta.url));
const mtl = join(root, 'packages/cli/bin/mtl.mjs');
const rank = fileURLToPath(new URL('rank.mjs', import.meta.url));
/**
 * A recipe whose loss falls by more than 1 nat in 100 steps, dropout included, and that does not amplify
 * rounding.
 */
const recipe = {
  model: { hiddenSize: 64, numAttentionHeads: 4, attentionDropout: 0.1, hiddenDropout: 0.1 },
  data: { seqLength: 32 },
  training: {
    microBatchSize: 1,
    globalBatchSize: 8,
    trainIters: Number(asked.steps),
    evalIters: 0,
    seed: 17,
  },
  optimizer: { lr: 5e-4, lrWarmupIters: 10, lrDecayStyle: 'cosine', clipGrad: 1 },
  logging: { logInterval: 1000 },
  layout: { threads: 1 },
};
/** In nats: a recipe that does not learn hides mistakes. Fewer steps than the default may not get there. */
const leastFall = asked.steps === '100' ? 0.5 : 0;
/** Longest a training run may take, the start of its processes included. */
const deadlineMs = 300_000;
/** Processes wait for each other: a second training run uses what the first leaves idle. */
const numAtOnce = 2;
/** Training runs of the same processes, at most: those of the last ones would have a core for themselves. */
const mostTogether = 8;
const launchers = new Set();
const directory = mkdtempSync(join(tmpdir(), 'mtl-parity-'));
/** Of layouts with documents that end within sequences. */
let corpusOfDocuments;

/** Where a training run leaves what it has measured, and how it is told to. */
function plan({ model, numLayers, options, precision, traits = [], fault }) {
  const place = mkdtempSync(join(directory, 'run-'));
  const [metrics, gradients] = [join(place, 'metrics.jsonl'), join(place, 'gradients')];
  const ofRun = {
    preset: model === 'bert' ? 'bert-1m' : 'gpt2-4m',
    model: { numLayers },
    logging: { metricsJsonl: metrics },
    ...(precision === 'bf16' ? { training: { bf16: true } } : {}),
  };
  const data = traits.includes(documents) ? corpusOfDocuments : {};
  return { options: mergeOptions(recipe, options, ofRun, data), metrics, gradients, fault };
}

/** Trains in layouts of as many processes, one after the other; resolves to what the runs left. */
function trainTogether(group) {
  const plans = group.map(plan);
  const list = join(mkdtempSync(join(directory, 'group-')), 'trainings.json');
  writeFileSync(list, JSON.stringify(plans));
  const argv = [mtl, 'run', '--nproc-per-node', String(group[0].numProcesses), rank];
  const env = { ...process.env, MTL_PARITY_TRAININGS: list };
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, argv, { cwd: root, env });
    // ranks die with their launcher, and the launcher with this process or at the deadline
    launchers.add(child);
    const deadline = setTimeout(() => child.kill('SIGKILL'), group.length * deadlineMs);
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
      if (status === 0) {
        resolve(Promise.all(plans.map(readRun)));
        return;
      }
      // it has not written its last step; those behind it have not begun
      const failed = group.find((_, index) => numStepsOf(plans[index]) < Number(asked.steps)) ?? group.at(-1);
      const last = output.split('\n').slice(-20).join('\n');
      reject(new Error(`${labelOf(failed)} ended with status ${status}:\n${last}`));
    });
  });
}

const numStepsOf = ({ metrics }) =>
  existsSync(metrics) ? readFileSync(metrics, 'utf8').split('\n').length - 1 : 0;

/** Trains in all layouts: what each run leaves, in their order. Those of most processes begin. */
function trainAll(cases) {
  const sizes = [...new Set(cases.map(({ numProcesses }) => numProcesses))].sort((a, b) => b - a);
  const groups = sizes.flatMap((size) => {
    const alike = cases.filter(({ numProcesses }) => numProcesses === size);
    const length = Math.min(mostTogether, Math.ceil(alike.length / numAtOnce));
    return Array.from({ length: Math.ceil(alike.length / length) }, (_, index) =>
      alike.slice(index * length, (index + 1) * length),
    );
  });
  const runs = atMostAtOnce({ limit: numAtOnce, items: groups }, trainTogether);
  return cases.map(async (each) => {
    const index = groups.findIndex((group) => group.includes(each));
    return (await runs[index])[groups[index].indexOf(each)];
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

/** The run of one process that a layout is compared with. */
const referenceOf = ({ model, precision, numLayers, traits }) =>
  [`${model.toUpperCase()} of ${numLayers} layers in ${precision}`, ...shared(traits)].join(', ');

const shared = (traits) => traits.filter((trait) => traitsOfBoth.includes(trait));

const labelOf = ({ name, fault }) => (fault === undefined ? name : `${name}: ${fault}`);
const scientific = (value) => value.toExponential(1).padStart(9);

function row(label, { loss, gradientNorm, gradients }, verdict) {
  const worst = `${scientific(gradients.difference)}  ${gradients.name}`;
  return `${label} ${scientific(loss)} ${scientific(gradientNorm)} ${worst.padEnd(58)} ${verdict}`;
}

async function main() {
  const chosen = asked.faults ? faults : asked.all ? allLayouts : layouts;
  const cases = chosen.filter(
    ({ name, fault = '', isOfFew = false }) =>
      `${name} ${fault}`.includes(asked.only) && (isOfFew || !asked.few),
  );
  corpusOfDocuments = await shortDocuments(directory);
  const wanted = new Map(cases.map((each) => [referenceOf(each), each]));
  const references = new Map();
  const alone = trainAll(
    [...wanted.values()].map(({ model, precision, numLayers, traits }) => {
      const options = mergeOptions(
        modelOptions[model],
        ...shared(traits).map((trait) => optionsOfTraits[trait]),
      );
      return { name: 'one process', numProcesses: 1, model, options, precision, numLayers, traits };
    }),
  );
  for (const [index, key] of [...wanted.keys()].entries()) {
    const reference = await alone[index];
    const [first, last] = [reference.steps[0].lm_loss, reference.steps.at(-1).lm_loss];
    console.log(
      `one process, ${key}: loss ${first.toFixed(4)} to ${last.toFixed(4)} in ${asked.steps} steps`,
    );
    if (!asked.faults && first - last < leastFall) {
      throw new Error(`the loss of ${key} falls by less than ${leastFall}: it proves nothing`);
    }
    references.set(key, reference);
  }
  const width = Math.max(...cases.map((each) => labelOf(each).length));
  console.log(`\n${'largest relative difference'.padEnd(width)}      loss grad norm  gradients of step 1`);
  const results = [];
  const runs = trainAll(cases);
  for (const [index, each] of cases.entries()) {
    const comparison = compareRuns(await runs[index], references.get(referenceOf(each)));
    const broken = exceeded(comparison, boundsOf(each));
    const { flip } = comparison;
    if (flip?.isNearTie === false) broken.push('routing');
    const isGood = asked.faults ? broken.includes(each.noticedBy) : broken.length === 0;
    const tie =
      flip?.isNearTie === true
        ? `, up to step ${flip.iteration}: scores of a token differ by ${flip.gap.toExponential(1)} and it goes to another expert`
        : '';
    const verdict = (broken.length > 0 ? `${broken.join(', ')} out of bounds` : 'ok') + tie;
    console.log(row(labelOf(each).padEnd(width), comparison, verdict));
    results.push({ ...each, ...comparison, broken, isGood });
  }
  if (asked.json !== undefined) writeFileSync(asked.json, `${JSON.stringify(results, null, 2)}\n`);
  const numBad = results.filter(({ isGood }) => !isGood).length;
  const what = asked.faults
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
