/**
 * The training state after each step: weights and optimizer. A run of a single process stores its states. A
 * run with a different layout starts every step from the stored state before this step. The comparison then
 * covers only individual steps, and not the rounding of earlier steps, which the model may amplify.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { deserialize, serialize } from 'node:v8';
import { Checkpoint, hostTensor, loadCheckpoint, saveCheckpoint } from '@mtl/checkpoint';
import { optimizerTensors, weightTensors } from '@mtl/trainer';

const listTensors = (optimizer) => [...weightTensors(optimizer), ...optimizerTensors(optimizer)];

/**
 * Stores the states of a single-process run. `after` must be called with 0 before the first step, and with
 * the iteration after each step.
 */
export function keepStates({ optimizer }, directory) {
  return {
    after: async (iteration) => {
      const tensors = listTensors(optimizer);
      const barrier = async (succeeded) => succeeded;
      await saveCheckpoint({ directory, iteration, tensors, state: {}, rank: 0, worldSize: 1, barrier });
    },
  };
}

/**
 * Compares this rank's part of a run's states with the stored states, and continues from the stored states.
 * `after` must be called like the `after` of `keepStates`. `save` writes a file for `readStates`.
 */
export function followStates({ optimizer }, directory) {
  const compared = [];
  let before;
  const after = async (iteration) => {
    const tensors = listTensors(optimizer).filter(({ slices }) =>
      slices.every(({ start, end }) => start < end),
    );
    const kept = await keptBoxes(tensors, join(directory, `iter_${String(iteration).padStart(7, '0')}`));
    for (const [index, tensor] of tensors.entries()) {
      // the values are copied, because the next read may reuse the memory
      const own = Float32Array.from(floats(await tensor.read()));
      const sums = squares(own, kept[index], before?.[index] ?? kept[index]);
      compared.push({ iteration, name: tensor.name, ...sums });
    }
    // writes the exact state of the single process to this rank's tensors
    for (const [index, tensor] of tensors.entries()) await tensor.write(new Uint8Array(kept[index].buffer));
    optimizer.refreshModel();
    before = kept;
  };
  const save = (place, rank) => writeFileSync(join(place, `states-${rank}.bin`), serialize(compared));
  return { after, save };
}

const floats = (bytes) => new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);

/** Returns the single process's values for the boxes of the given tensors. */
async function keptBoxes(tensors, path) {
  const checkpoint = await Checkpoint.open(path);
  const own = new Set(tensors.map(({ name }) => name));
  const boxes = tensors.map(({ slices }) => {
    const length = slices.reduce((product, { start, end }) => product * (end - start), 1);
    return new Float32Array(length);
  });
  await loadCheckpoint({
    checkpoint,
    tensors: tensors.map(({ name, dtype, globalShape, slices }, index) =>
      hostTensor({ name, dtype, globalShape, slices, memory: new Uint8Array(boxes[index].buffer) }),
    ),
    ignore: (name) => !own.has(name),
  });
  return boxes;
}

/**
 * Returns three sums of squares: of the difference from the single process, of the single process's values,
 * and of the change of these values in the step.
 */
function squares(own, kept, before) {
  let [difference, norm, change] = [0, 0, 0];
  for (let index = 0; index < kept.length; index++) {
    difference += (own[index] - kept[index]) ** 2;
    norm += kept[index] ** 2;
    change += (kept[index] - before[index]) ** 2;
  }
  return { difference, norm, change };
}

/** The relative difference between two values that were equal before each was rounded to float32. */
const rounding = 2 ** -23;

/**
 * Returns for each step the largest relative difference between the resulting state and the state of a single
 * process. The difference of a tensor is relative to the tensor's change in the step. A difference that a
 * single rounding of each value explains does not count, because late steps hardly change values by more than
 * a rounding. The states before the first step must be equal bit by bit.
 *
 * @param {string} directory
 * @returns {readonly ({ readonly difference: number, readonly name: string } | undefined)[]}
 */
export function readStates(directory) {
  const sums = new Map();
  for (const file of readdirSync(directory).filter((each) => each.startsWith('states-'))) {
    for (const { iteration, name, ...part } of deserialize(readFileSync(join(directory, file)))) {
      const key = `${iteration}/${name}`;
      const whole = sums.get(key) ?? { iteration, name, difference: 0, norm: 0, change: 0 };
      for (const [which, value] of Object.entries(part)) whole[which] += value;
      sums.set(key, whole);
    }
  }
  const steps = [];
  for (const { iteration, name, difference, norm, change } of sums.values()) {
    const allowed = iteration === 0 ? 0 : rounding * Math.sqrt(norm);
    const excess = Math.max(0, Math.sqrt(difference) - allowed);
    const ratio = excess === 0 ? 0 : excess / Math.sqrt(change);
    // NaN counts as the largest possible difference
    const relative = Number.isNaN(ratio) ? Number.POSITIVE_INFINITY : ratio;
    if (relative >= (steps[iteration]?.difference ?? 0)) steps[iteration] = { difference: relative, name };
  }
  return steps;
}
