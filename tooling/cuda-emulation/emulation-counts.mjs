import { readFileSync } from 'node:fs';

/** In the order of emulation/counts.h. */
const names = [
  'kernels',
  'synchronizations',
  'copiesToDevice',
  'copiesToHost',
  'memoryCalls',
  'enqueued',
  'graphLaunches',
];

/** Whether this process's emulated CUDA device keeps counts (`npm run dev -- test:cuda --emulation` does). */
export const hasEmulationCounts = process.env.MTL_EMULATION_COUNTS !== undefined;

/** What the host has asked of the emulated CUDA device so far. */
export function emulationCounts() {
  const bytes = readFileSync(`${process.env.MTL_EMULATION_COUNTS}.${process.pid}`);
  return Object.fromEntries(names.map((name, index) => [name, Number(bytes.readBigUInt64LE(8 * index))]));
}

/** What `body` asks of it. */
export function countEmulated(body) {
  const before = emulationCounts();
  body();
  const after = emulationCounts();
  return Object.fromEntries(names.map((name) => [name, after[name] - before[name]]));
}
