/**
 * The state of training after each step, weights and optimizer: kept by a run of one process, and followed by
 * a layout, which takes every step from the state that one process had before it. So rounding of earlier
 * steps, which the model may amplify, is in no step, and what each step by itself makes of the state is
 * compared.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { deserialize, serialize } from 'node:v8';
import { Checkpoint, hostTensor, loadCheckpoint, saveCheckpoint } from '@mtl/checkpoint';
import { optimizerTensors, weightTensors } from '@mtl/trainer';

const tensorsOf = (optimizer) => [...weightTensors(optimizer), ...optimizerTensors(optimizer)];

/**
 * Keeps the states of a run of one process; `after` is called before the first step, as 0, and after each.
 */
export function keepStates({ optimizer }, directory) {
  return {
    after: async (iteration) => {
      const tensors = tensorsOf(optimizer);
      const barrier = async (succeeded) => succeeded;
      await saveCheckpoint({ directory, iteration, tensors, state: {}, rank: 0, worldSize: 1, barrier });
    },
  };
}

/**
 * Compares the states of a run with those that were kept, as far as this rank holds them, and goes on from
 * these. `after` is called as that of `keepStates`; `save` writes a file for `readStates`.
 */
export function followStates({ optimizer }, directory) {
  const compared = [];
  let before;
  const after = async (iteration) => {
    const tensors = tensorsOf(optimizer).filter(({ slices }) =>
      slices.every(({ start, end }) => start < end),
    );
    const kept = await keptBoxes(tensors, join(directory, `iter_${String(iteration).padStart(7, '0')}`));
    for (const [index, tensor] of tensors.entries()) {
      // its memory may be that of the next tensor that is read
      const own = Float32Array.from(floats(await tensor.read()));
      const sums = squares(own, kept[index], before?.[index] ?? kept[index]);
      compared.push({ iteration, name: tensor.name, ...sums });
    }
    // from the state of one process, exactly
    for (const [index, tensor] of tensors.entries()) await tensor.write(new Uint8Array(kept[index].buffer));
    optimizer.refreshModel();
    before = kept;
  };
  const save = (place, rank) => writeFileSync(join(place, `states-${rank}.bin`), serialize(compared));
  return { after, save };
}

const floats = (bytes) => new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);

/** Returns the values that one process had, of the same boxes. */
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

/** Sums of squares: of the difference to what one process has, of that, and of what its step changed. */
function squares(own, kept, before) {
  let [difference, norm, change] = [0, 0, 0];
  for (let index = 0; index < kept.length; index++) {
    difference += (own[index] - kept[index]) ** 2;
    norm += kept[index] ** 2;
    change += (kept[index] - before[index]) ** 2;
  }
  return { difference, norm, change };
}

/** Two values that are each rounded to float32 differ by this, relatively, and say the same. */
const rounding = 2 ** -23;

/**
 * Returns by step how far the state after it is from that of one process, relative to what the step changed
 * of the tensor that is farthest. One rounding of each value is no difference: late steps change little more.
 * The states before the first step must be the same bits.
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
    // a value that is no number is as wrong as can be
    const relative = Number.isNaN(ratio) ? Number.POSITIVE_INFINITY : ratio;
    if (relative >= (steps[iteration]?.difference ?? 0)) steps[iteration] = { difference: relative, name };
  }
  return steps;
}
