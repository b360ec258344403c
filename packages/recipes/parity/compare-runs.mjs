import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { Checkpoint, hostTensor, loadCheckpoint } from '@mtl/checkpoint';
import { firstFlip, readRoutings } from './routing.mjs';

/**
 * What a run left: its losses and gradient norms by step, the gradients of its first step by name, and which
 * experts its tokens went to.
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
  return { steps, gradients: values, routings: readRoutings(dirname(gradients)) };
}

/**
 * The largest relative differences between two runs, of losses and norms up to the step in which a token goes
 * to another expert, and that step.
 */
export function compareRuns(run, reference) {
  const flip = firstFlip(run.routings, reference.routings);
  // what a token that goes elsewhere changes is no rounding
  const comparable = reference.steps.slice(0, flip?.isNearTie ? flip.iteration - 1 : undefined);
  const largest = (name) =>
    Math.max(0, ...comparable.map((step, index) => relative(run.steps[index]?.[name], step[name])));
  let gradients = { difference: 0, name: '' };
  for (const [name, expected] of reference.gradients) {
    const difference = relativeNorm(run.gradients.get(name), expected);
    if (!(difference <= gradients.difference))
      gradients = { difference, name: name.replace(/^gradient\./, '') };
  }
  // lm_loss, and where a model has several the others and their total
  const losses = Object.keys(reference.steps[0]).filter((name) => name.endsWith('_loss'));
  const loss = Math.max(...losses.map(largest));
  return { loss, gradientNorm: largest('grad_norm'), gradients, flip };
}

function relative(value, expected) {
  return value === undefined ? Number.POSITIVE_INFINITY : Math.abs(value - expected) / Math.abs(expected);
}

function relativeNorm(values, expected) {
  let [difference, norm] = [0, 0];
  for (let index = 0; index < expected.length; index++) {
    difference += (values[index] - expected[index]) ** 2;
    norm += expected[index] ** 2;
  }
  return Math.sqrt(difference / norm);
}
