import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { Checkpoint, hostTensor, loadCheckpoint } from '@mtl/checkpoint';
import { findFlips, readRoutings } from './routing.mjs';
import { readStates } from './states.mjs';

/**
 * Reads a run's output: losses and gradient norms by step, gradients of the first step by name, and the
 * experts of each token. If the run started its steps from the states of a single process, also reads the
 * differences of states.
 */
export async function readRun({ metrics, gradients }) {
  const steps = readFileSync(metrics, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
    .filter(({ type }) => type === undefined);
  const checkpoint = await Checkpoint.open(`${gradients}/iter_0000001`);
  const values = new Map();
  const tensors = [...checkpoint.tensors.values()].map(({ name, globalShape }) => {
    const array = new Float32Array(globalShape.reduce((product, size) => product * size, 1));
    values.set(name, array);
    return hostTensor({ name, dtype: 'F32', globalShape, memory: new Uint8Array(array.buffer) });
  });
  await loadCheckpoint({ checkpoint, tensors });
  const place = dirname(gradients);
  return { steps, gradients: values, routings: readRoutings(place), states: readStates(place) };
}

/**
 * Returns the largest relative differences of losses and norms between two runs, and the first step in which
 * a token chooses different experts. Only earlier steps are compared.
 */
export function compareRuns(run, reference) {
  const [flip] = findFlips(run.routings, reference.routings);
  // a different expert for a token changes results by more than rounding
  const comparable = reference.steps.slice(0, flip?.isNearTie ? flip.iteration - 1 : undefined);
  const largest = (name) =>
    Math.max(0, ...comparable.map((step, index) => relative(run.steps[index]?.[name], step[name])));
  let gradients = { difference: 0, name: '' };
  for (const [name, expected] of reference.gradients) {
    const difference = relativeNorm(run.gradients.get(name), expected);
    if (!(difference <= gradients.difference))
      gradients = { difference, name: name.replace(/^gradient\./, '') };
  }
  const loss = Math.max(...listLosses(reference).map(largest));
  return { loss, gradientNorm: largest('grad_norm'), gradients, flip };
}

/**
 * Returns the names of the losses: lm_loss and, for a model with several losses, the further losses and the
 * total.
 */
const listLosses = ({ steps }) => Object.keys(steps[0]).filter((name) => name.endsWith('_loss'));

/**
 * Compares the steps of a layout with a single process's steps that start from the same states. Returns the
 * largest relative differences of losses, of norms, and of the states after the step. Steps in which a token
 * chooses different experts are returned separately.
 */
export function compareSteps(run, reference) {
  const flips = findFlips(run.routings, reference.routings);
  const flipped = new Set(flips.map(({ iteration }) => iteration));
  const worst = {
    loss: { difference: 0, iteration: 0 },
    gradientNorm: { difference: 0, iteration: 0 },
    state: { difference: 0, iteration: 0, name: '' },
  };
  const note = (kind, found) => {
    if (!(found.difference <= worst[kind].difference)) worst[kind] = found;
  };
  note('state', { iteration: 0, ...(run.states[0] ?? nothing) });
  for (const [index, step] of reference.steps.entries()) {
    const iteration = index + 1;
    if (flipped.has(iteration)) continue;
    const own = run.steps[index];
    for (const name of listLosses(reference)) {
      note('loss', { iteration, difference: relative(own?.[name], step[name]) });
    }
    note('gradientNorm', { iteration, difference: relative(own?.grad_norm, step.grad_norm) });
    note('state', { iteration, ...(run.states[iteration] ?? nothing) });
  }
  return { ...worst, flips };
}

/** The result for a state that was not compared. */
const nothing = { difference: Number.POSITIVE_INFINITY, name: 'not compared' };

function relative(value, expected) {
  const difference = Math.abs(value - expected) / Math.abs(expected);
  // a missing value or NaN counts as the largest possible difference
  return Number.isNaN(difference) ? Number.POSITIVE_INFINITY : difference;
}

function relativeNorm(values, expected) {
  let [difference, norm] = [0, 0];
  for (let index = 0; index < expected.length; index++) {
    difference += (values[index] - expected[index]) ** 2;
    norm += expected[index] ** 2;
  }
  return Math.sqrt(difference / norm);
}
