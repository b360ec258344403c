import { readFileSync } from 'node:fs';

/** The names of the counts, in the order of emulation/counts.h. */
const names = [
  'kernels',
  'synchronizations',
  'copiesToDevice',
  'copiesToHost',
  'memoryCalls',
  'enqueued',
  'graphLaunches',
];

/**
 * Counts of the host's requests to the emulated CUDA device.
 *
 * @typedef {object} EmulationCounts
 * @property {number} kernels
 * @property {number} synchronizations calls that may wait for the device
 * @property {number} copiesToDevice
 * @property {number} copiesToHost
 * @property {number} memoryCalls calls that allocate or release driver memory, which may also wait for the
 * device
 * @property {number} enqueued calls that enqueue something: kernels, matmuls, copies, graphs
 * @property {number} graphLaunches
 */

/** True if this process's emulated device keeps counts, as under `npm run dev -- test:cuda --emulation`. */
export const hasEmulationCounts = process.env.MTL_EMULATION_COUNTS !== undefined;

/**
 * Returns the counts since the process began.
 *
 * @returns {EmulationCounts}
 */
export function emulationCounts() {
  const bytes = readFileSync(`${process.env.MTL_EMULATION_COUNTS}.${process.pid}`);
  return Object.fromEntries(names.map((name, index) => [name, Number(bytes.readBigUInt64LE(8 * index))]));
}

/**
 * Returns the counts for only the calls of `body`.
 *
 * @param {() => void} body
 * @returns {EmulationCounts}
 */
export function countEmulated(body) {
  const before = emulationCounts();
  body();
  const after = emulationCounts();
  return Object.fromEntries(names.map((name) => [name, after[name] - before[name]]));
}
