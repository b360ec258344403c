#!/usr/bin/env node
/**
 * Compares two ways to run the training step: on several ranks with one thread each, and in a single process
 * with the same number of threads. Prints tokens/s, the time for which a step waits for communication, and
 * the memory of a rank.
 *   npm run dev -- parallel-steps [--preset gpt2-124m] [--dtype bfloat16] [--ranks 2] [--repeat 3] [--iters 4]
 *     [--only pp] [--matmul-library own|oneDNN] [--log FILE]
 * Sharded gradients and parameters are compared with the distributed optimizer.
 * A pipeline, split by work, is compared with a single process that accumulates the same number of
 * micro-batches, times 1 / (1 + bubble). The bubble is the idle time that the schedule causes, divided by the
 * work of a step: (p - 1) / m. First checks that all layouts have the losses of a single process. Then the
 * layouts take turns, and medians are compared.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { runStep } from './run-step.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, '..', '..', '..');
const { values } = parseArgs({
  options: {
    preset: { type: 'string', default: 'gpt2-124m' },
    dtype: { type: 'string', default: 'bfloat16' },
    ranks: { type: 'string', default: '2' },
    repeat: { type: 'string', default: '3' },
    /** runs only layouts whose names begin with this string, and the layouts with which they are compared */
    only: { type: 'string', default: '' },
    'matmul-library': { type: 'string', default: 'faster' },
    iters: { type: 'string', default: '4' },
    log: { type: 'string', default: join(root, 'apps', 'gpt-train', 'build', 'bench-parallel.jsonl') },
  },
});
const { ranks } = values;
const numMicroBatches = 8;
const inSteps = ['--micro-batches', String(numMicroBatches)];
const one = `one process, ${ranks} threads`;
const distributed = `dp ${ranks}, distributed optimizer`;
const accumulating = `${one}, ${numMicroBatches} micro-batches`;
/**
 * The layouts. Each names the layout with which it is compared, and the fraction of time that its pipeline
 * bubble does not take.
 */
const allLayouts = [
  { name: one, numProcesses: 1, flags: ['--threads', ranks] },
  { name: `tp ${ranks}`, flags: ['--tp', ranks] },
  { name: `tp ${ranks}, sequence parallel`, flags: ['--tp', ranks, '--sequence-parallel'] },
  { name: `dp ${ranks}`, flags: [] },
  { name: distributed, flags: ['--sharding', 'optim'] },
  ...['optim_grads', 'optim_grads_params'].map((strategy) => ({
    name: `dp ${ranks}, ${strategy}`,
    flags: ['--sharding', strategy],
    reference: distributed,
  })),
  { name: accumulating, numProcesses: 1, flags: ['--threads', ranks, ...inSteps] },
  {
    name: `pp ${ranks}, 1f1b`,
    flags: ['--pp', ranks, ...inSteps],
    reference: accumulating,
    used: 1 / (1 + (Number(ranks) - 1) / numMicroBatches),
  },
];
const isReference = ({ name }) => name === one || name === accumulating;
const compared = allLayouts.filter((layout) => !isReference(layout) && layout.name.startsWith(values.only));
const references = new Set([one, ...compared.map(({ reference = one }) => reference)]);
const layouts = allLayouts.filter((layout) => references.has(layout.name) || compared.includes(layout));
/**
 * The lowest acceptable throughput, as a fraction of the throughput of a single process with the same number
 * of threads.
 */
const goal = 0.9;
const log = [];

function run({ name, flags, numProcesses = Number(ranks) }) {
  const threads = numProcesses === 1 ? [] : ['--threads', '1'];
  const what = ['--preset', values.preset, '--dtype', values.dtype, '--iters', values.iters, '--warmup', '1'];
  const library = ['--matmul-library', values['matmul-library']];
  const line = runStep({ name, numProcesses, flags: [...what, ...library, ...threads, ...flags] });
  log.push(line);
  return JSON.parse(line);
}

const median = (numbers) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];
const runs = new Map(layouts.map(({ name }) => [name, []]));
for (let turn = 0; turn < Number(values.repeat); turn++) {
  for (const layout of layouts) runs.get(layout.name).push(run(layout));
}
// the first loss depends only on the initial weights and a batch, so only rounding differs
const tolerance = values.dtype === 'float32' ? 2e-6 : 2e-3;
console.log(`${values.preset}, ${values.dtype}, ${cpus()[0].model}, medians of ${values.repeat} runs`);
console.log(`${''.padEnd(32)} tokens/s  of one process  waited ms  ${'of step'.padStart(7)}  MiB per rank`);
let isWrong = false;
for (const {
  name,
  numProcesses,
  used = 1,
  reference: referenceName = numProcesses ? name : one,
} of layouts) {
  const all = runs.get(name);
  const reference = runs.get(referenceName);
  const rate = median(all.map((one) => one.tokens_per_s));
  const share = rate / used / median(reference.map((one) => one.tokens_per_s));
  const [waited, step] = [median(all.map((one) => one.waited_ms)), median(all.map((one) => one.step_ms))];
  const memory = all[0].allocator_peak_bytes / 2 ** 20;
  console.log(
    `${name.padEnd(32)} ${rate.toFixed(0).padStart(8)} ${share.toFixed(2).padStart(8)} ${(share >= goal ? 'ok' : `< ${goal}`).padStart(6)}` +
      `${waited.toFixed(1).padStart(11)} ${`${((100 * waited) / step).toFixed(1)} %`.padStart(8)} ${memory.toFixed(0).padStart(13)}`,
  );
  const difference = Math.abs(all[0].losses[0] / reference[0].losses[0] - 1);
  if (difference <= tolerance) continue;
  isWrong = true;
  console.log(`  loss ${all[0].losses[0]} instead of ${reference[0].losses[0]}`);
}
mkdirSync(dirname(values.log), { recursive: true });
writeFileSync(values.log, `${log.join('\n')}\n`);
process.exit(isWrong ? 1 : 0);
