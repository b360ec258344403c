#!/usr/bin/env node
/**
 * npm run dev -- parity: trains a small GPT, a small BERT and a small Llama with dropout in many layouts of
 * processes and compares losses, gradient norms and the gradients of the first step with one process.
 *   node parity.mjs [--steps 100] [--only TEXT] [--few] [--all | --faults] [--each-step] [--json FILE]
 * Options: --few runs a sample of the layouts or faults; --all runs all combinations. --faults injects faults
 * instead, and fails if a check does not detect its fault. --each-step also runs all float32 layouts, or
 * faults, step by step from the states of a single process. Without this option, a layout runs step by step
 * only if rounding changed its expert assignments or may have been amplified.
 */
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { atMostAtOnce } from '@mtl/tooling/at-most-at-once';
import { compareRuns, compareSteps, readRun } from './compare-runs.mjs';
import {
  allLayouts,
  boundsOfOneStep,
  chooseBounds,
  documents,
  faults,
  layouts,
  modelOptions,
  traits as optionsOfTraits,
  traitsOfBoth,
} from './layouts.mjs';
import { textOfFlip } from './routing.mjs';
import { shortDocuments } from './short-documents.mjs';

const { values: asked } = parseArgs({
  options: {
    steps: { type: 'string', default: '100' },
    only: { type: 'string', default: '' },
    all: { type: 'boolean', default: false },
    faults: { type: 'boolean', default: false },
    'each-step': { type: 'boolean', default: false },
    few: { type: 'boolean', default: false },
    json: { type: 'string' },
  },
});

const root = fileURLToPath(new URL('../../..', import.meta.url));
const mtl = join(root, 'packages/cli/bin/mtl.mjs');
const rank = fileURLToPath(new URL('rank.mjs', import.meta.url));
/**
 * A recipe whose loss falls by more than 1 nat in 100 steps with dropout, and that does not amplify rounding.
 */
const recipe = {
  model: { hiddenSize: 64, numAttentionHeads: 4, attentionDropout: 0.1, hiddenDropout: 0.1 },
  data: { sequenceLength: 32 },
  training: {
    microBatchSize: 1,
    globalBatchSize: 8,
    trainIterations: Number(asked.steps),
    evalIterations: 0,
    seed: 17,
  },
  optimizer: {
    maxLearningRate: 5e-4,
    learningRateWarmupIterations: 10,
    learningRateDecayStyle: 'cosine',
    clipGrad: 1,
  },
  logging: { logInterval: 1000 },
  layout: { threads: 1 },
};
/**
 * The minimum by which the loss must fall, in nats, because a recipe that does not learn would hide faults.
 * It is 0 unless the run has the default number of steps, because in fewer steps the loss may not fall this
 * far.
 */
const leastFall = asked.steps === '100' ? 0.5 : 0;
/** The maximum duration of a training run, including the start of its processes. */
const deadlineMs = 300_000;
/**
 * The number of simultaneous training runs. A run's processes wait for each other, so a second run uses the
 * idle cores.
 */
const numAtOnce = 2;
/**
 * The maximum number of training runs that one group of processes executes one after the other. With more,
 * the last group would run alone on the machine.
 */
const mostTogether = 8;
const launchers = new Set();
const directory = mkdtempSync(join(tmpdir(), 'mtl-parity-'));
/** The corpus for layouts with documents that end within sequences. */
let corpusOfDocuments;

/** Returns the options of a training run, and the paths of the files for its measurements. */
function plan({ model, numLayers, options, precision, traits = [], fault, keeps, follows }) {
  const place = mkdtempSync(join(directory, 'run-'));
  const [metrics, gradients] = [join(place, 'metrics.jsonl'), join(place, 'gradients')];
  const ofRun = {
    preset: model === 'bert' ? 'bert-1m' : 'gpt2-4m',
    model: { numLayers },
    logging: { metricsJsonl: metrics },
    ...(precision === 'bf16' ? { training: { bf16: true } } : {}),
  };
  const data = traits.includes(documents) ? corpusOfDocuments : {};
  return { options: mergeOptions(recipe, options, ofRun, data), metrics, gradients, fault, keeps, follows };
}

/**
 * Trains in layouts with the same number of processes, one after the other. Resolves to the results of the
 * runs.
 */
function trainTogether(group) {
  const plans = group.map(plan);
  const list = join(mkdtempSync(join(directory, 'group-')), 'trainings.json');
  writeFileSync(list, JSON.stringify(plans));
  const argv = [mtl, 'run', '--nproc-per-node', String(group[0].numProcesses), rank];
  const env = { ...process.env, MTL_PARITY_TRAININGS: list };
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, argv, { cwd: root, env });
    // ranks end with their launcher, and the launcher ends with this process or at the deadline
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
      // the failed run is the first run without a last step, because later runs have not begun
      const failed = group.find((_, index) => countSteps(plans[index]) < Number(asked.steps)) ?? group.at(-1);
      const last = output.split('\n').slice(-20).join('\n');
      reject(new Error(`${formatLabel(failed)} ended with status ${status}:\n${last}`));
    });
  });
}

const countSteps = ({ metrics }) =>
  existsSync(metrics) ? readFileSync(metrics, 'utf8').split('\n').length - 1 : 0;

/**
 * Trains in all layouts and returns the results of the runs, in the order of the layouts. Layouts with the
 * most processes start first.
 */
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

/** Returns the bounds that a comparison of runs exceeds. */
function exceeded({ loss, gradientNorm, gradients, flip }, bounds) {
  return [
    ...(loss <= bounds.loss ? [] : ['loss']),
    ...(gradientNorm <= bounds.gradientNorm ? [] : ['gradientNorm']),
    ...(gradients.difference <= bounds.gradients ? [] : ['gradients']),
    ...(flip?.isNearTie === false ? ['routing'] : []),
  ];
}

/** Returns the bounds that a comparison of individual steps exceeds. */
const exceededByOneStep = ({ flips, ...worst }) => [
  ...Object.entries(boundsOfOneStep).flatMap(([kind, bound]) =>
    worst[kind].difference <= bound ? [] : [kind],
  ),
  ...(flips.every(({ isNearTie }) => isNearTie) ? [] : ['routing']),
];

/** Returns the name of the single-process run with which a layout is compared. */
const nameReference = ({ model, precision, numLayers, traits }) =>
  [`${model.toUpperCase()} of ${numLayers} layers in ${precision}`, ...shared(traits)].join(', ');

const shared = (traits) => traits.filter((trait) => traitsOfBoth.includes(trait));

const formatLabel = ({ name, fault }) => (fault === undefined ? name : `${name}: ${fault}`);
const scientific = (value) => value.toExponential(1).padStart(9);
const measureWidth = (cases) => Math.max(...cases.map((each) => formatLabel(each).length));

function row(label, { loss, gradientNorm, gradients }, verdict) {
  const worst = `${scientific(gradients.difference)}  ${gradients.name}`;
  return `${label} ${scientific(loss)} ${scientific(gradientNorm)} ${worst.padEnd(58)} ${verdict}`;
}

/** Returns the single-process run with which the given layout is compared. */
function alone({ model, precision, numLayers, traits }) {
  const options = mergeOptions(modelOptions[model], ...shared(traits).map((trait) => optionsOfTraits[trait]));
  return { name: 'one process', numProcesses: 1, model, options, precision, numLayers, traits };
}

/** Trains the single-process references of `cases`. Returns their runs, with the keys of `nameReference`. */
async function trainReferences(cases) {
  const wanted = new Map(cases.map((each) => [nameReference(each), alone(each)]));
  const runs = trainAll([...wanted.values()]);
  const references = new Map();
  for (const [index, key] of [...wanted.keys()].entries()) {
    const reference = await runs[index];
    const [first, last] = [reference.steps[0].lm_loss, reference.steps.at(-1).lm_loss];
    console.log(
      `one process, ${key}: loss ${first.toFixed(4)} to ${last.toFixed(4)} in ${asked.steps} steps`,
    );
    if (!asked.faults && first - last < leastFall) {
      throw new Error(`the loss of ${key} falls by less than ${leastFall}: it proves nothing`);
    }
    references.set(key, reference);
  }
  return references;
}

/** Trains in all layouts and compares each run with its single-process run. */
async function compareWhole(cases, references) {
  const width = measureWidth(cases);
  console.log(`\n${'largest relative difference'.padEnd(width)}      loss grad norm  gradients of step 1`);
  const results = [];
  const runs = trainAll(cases);
  for (const [index, each] of cases.entries()) {
    const comparison = compareRuns(await runs[index], references.get(nameReference(each)));
    const broken = exceeded(comparison, chooseBounds(each));
    const { flip } = comparison;
    const tie = flip === undefined ? '' : tieText(flip);
    const verdict = (broken.length > 0 ? `${broken.join(', ')} out of bounds` : 'ok') + tie;
    console.log(row(formatLabel(each).padEnd(width), comparison, verdict));
    const isGood = asked.faults ? broken.includes(each.noticedBy) : broken.length === 0;
    results.push({ ...each, ...comparison, broken, isGood });
  }
  return results;
}

/**
 * Returns a string that names the tokens that chose different experts. If the experts' scores are nearly
 * equal (a tie), the comparison ends before this step.
 */
const tieText = (flip) =>
  `${flip.isNearTie ? ', up to' : ', from'} ${textOfFlip(flip)}: other experts, scores ${flip.gap.toExponential(1)} apart`;

/**
 * Returns true if the steps of a layout must be repeated one by one. This is the case if only the norms
 * exceed their bound, because the model may have amplified the rounding of earlier steps. It is also the case
 * if a near tie between experts has ended the comparison.
 */
function isRepeated({ precision, broken, flip }) {
  if (precision !== 'fp32') return false;
  if (asked['each-step']) return true;
  if (asked.faults) return false;
  return isNormAlone(broken) || (broken.length === 0 && flip?.isNearTie === true);
}

const isNormAlone = (broken) => broken.join() === 'gradientNorm';

/**
 * Repeats layouts so that each step starts from the state of a single process, and adds the comparison to the
 * results. A norm beyond its bound is accepted if no single step exceeds the bounds for one step. All other
 * failures remain.
 */
async function compareEachStep(results, references) {
  const width = measureWidth(results);
  console.log(
    `\n${'each step from the state of one process'.padEnd(width)}      loss grad norm  change of the state`,
  );
  for (const key of new Set(results.map(nameReference))) {
    const alike = results.filter((each) => nameReference(each) === key);
    const states = mkdtempSync(join(directory, 'states-'));
    const [kept] = trainAll([{ ...alone(alike[0]), keeps: states }]);
    const reference = references.get(key);
    checkSameSteps(key, { once: reference, again: await kept });
    const runs = trainAll(alike.map((each) => ({ ...each, follows: states })));
    for (const [index, each] of alike.entries()) {
      const comparison = compareSteps(await runs[index], reference);
      judgeSteps(each, comparison);
      const { loss, gradientNorm, state, flips } = comparison;
      const verdict = each.brokenSteps.length > 0 ? `${each.brokenSteps.join(', ')} out of bounds` : 'ok';
      const amplified =
        each.isGood && isNormAlone(each.broken) && !asked.faults
          ? ', the norms above are amplified rounding'
          : '';
      const ties = flips.length > 0 ? `, ties left out: ${flips.map(textOfFlip).join('; ')}` : '';
      const numbers = { loss: loss.difference, gradientNorm: gradientNorm.difference, gradients: state };
      console.log(row(formatLabel(each).padEnd(width), numbers, verdict + amplified + ties));
    }
    rmSync(states, { recursive: true });
  }
}

function judgeSteps(result, comparison) {
  const brokenSteps = exceededByOneStep(comparison);
  const isBroken = brokenSteps.length > 0;
  const wasGood = result.isGood || isNormAlone(result.broken);
  const isGood = asked.faults ? result.isGood && isBroken : wasGood && !isBroken;
  Object.assign(result, { eachStep: comparison, brokenSteps, isGood });
}

/**
 * Checks that a single process computes the same bits twice. Otherwise its states cannot serve as a
 * reference.
 */
function checkSameSteps(key, { once, again }) {
  const formatNumbers = ({ steps }) =>
    JSON.stringify(steps.map(({ lm_loss, grad_norm }) => [lm_loss, grad_norm]));
  if (formatNumbers(once) !== formatNumbers(again)) throw new Error(`${key}: two runs of one process differ`);
}

async function main() {
  const chosen = asked.faults ? faults : asked.all ? allLayouts : layouts;
  const cases = chosen.filter(
    ({ name, fault = '', isOfFew = false }) =>
      `${name} ${fault}`.includes(asked.only) && (isOfFew || !asked.few),
  );
  corpusOfDocuments = await shortDocuments(directory);
  const references = await trainReferences(cases);
  const results = await compareWhole(cases, references);
  const repeated = results.filter(isRepeated);
  if (repeated.length > 0) await compareEachStep(repeated, references);
  if (asked.json !== undefined) writeFileSync(asked.json, `${JSON.stringify(results, null, 2)}\n`);
  const numBad = results.filter(({ isGood }) => !isGood).length;
  const what = asked.faults
    ? 'fault(s) not noticed by the check that is there for it'
    : 'layout(s) differ from one process';
  console.log(numBad === 0 ? `\nall ${results.length} as they should be` : `\n${numBad} ${what}`);
  return numBad === 0 && results.length > 0 ? 0 : 1;
}

process.once('exit', () => {
  // after an error, other launchers may still run and write files
  for (const launcher of launchers) launcher.kill('SIGKILL');
  rmSync(directory, { recursive: true, force: true, maxRetries: 10 });
});
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1));
const status = await main().catch((error) => {
  console.error(error);
  return 1;
});
process.exit(status);
