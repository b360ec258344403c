#!/usr/bin/env node
/**
 * Compares two ways to run the training step with a long sequence: on two ranks with one thread each (context
 * parallelism), and in a single process, which has two threads or one. Prints milliseconds, the time for
 * which a step waits for communication, and the memory of a rank. First checks that all layouts have the
 * losses of a single process. The layouts take turns, and medians are compared.
 *   npm run dev -- long-sequence [--preset long-8k] [--dtype float32] [--repeat 3] [--iters 3] [--log FILE]
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { runStep } from './run-step.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const { values } = parseArgs({
  options: {
    preset: { type: 'string', default: 'long-8k' },
    dtype: { type: 'string', default: 'float32' },
    repeat: { type: 'string', default: '3' },
    iters: { type: 'string', default: '3' },
    log: { type: 'string', default: join(here, '..', 'build', 'bench-long-sequence.jsonl') },
  },
});
const shared = (communication) => ['--threads', '1', '--cp', '2', '--cp-comm-type', communication];
const layouts = [
  { name: 'one process, 2 threads', numProcesses: 1, flags: ['--threads', '2'] },
  { name: 'one process, 1 thread', numProcesses: 1, flags: ['--threads', '1'] },
  ...['p2p', 'all_gather', 'a2a'].map((communication) => ({
    name: `cp 2, ${communication}`,
    numProcesses: 2,
    flags: shared(communication),
  })),
];
/**
 * The largest acceptable times, as multiples of the time of a single process with two threads (`two`) and
 * with one thread (`one`).
 */
const goals = { two: 1.15, one: 0.58 };

const log = [];
const runs = new Map(layouts.map(({ name }) => [name, []]));
for (let turn = 0; turn < Number(values.repeat); turn++) {
  for (const { flags, ...layout } of layouts) {
    const what = [
      '--preset',
      values.preset,
      '--dtype',
      values.dtype,
      '--iters',
      values.iters,
      '--warmup',
      '1',
    ];
    const line = runStep({ ...layout, flags: [...what, ...flags] });
    log.push(line);
    runs.get(layout.name).push(JSON.parse(line));
  }
}
const median = (numbers) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];
const measureStep = (name) => median(runs.get(name).map((run) => run.step_ms));
const [two, one] = layouts.slice(0, 2).map(({ name }) => measureStep(name));
// the first loss depends only on the initial weights and a batch, so only rounding differs
const tolerance = values.dtype === 'float32' ? 2e-6 : 2e-3;
console.log(`${values.preset}, ${values.dtype}, ${cpus()[0].model}, medians of ${values.repeat} runs`);
console.log(`${''.padEnd(24)} ms a step  of 2 threads  of 1 thread  waited ms  MiB per rank`);
let isWrong = false;
for (const { name } of layouts) {
  const all = runs.get(name);
  const step = measureStep(name);
  const isWithin = step / two <= goals.two && step / one <= goals.one;
  const waited = median(all.map((run) => run.waited_ms));
  const memory = all[0].allocator_peak_bytes / 2 ** 20;
  const verdict = name.startsWith('cp') ? (isWithin ? 'ok' : `> ${goals.two} or ${goals.one}`) : '';
  console.log(
    `${name.padEnd(24)} ${step.toFixed(0).padStart(9)} ${(step / two).toFixed(2).padStart(13)} ${(step / one).toFixed(2).padStart(12)} ${waited.toFixed(0).padStart(10)} ${memory.toFixed(0).padStart(13)}  ${verdict}`,
  );
  const [reference] = runs.get(layouts[0].name);
  const difference = Math.abs(all[0].losses[0] / reference.losses[0] - 1);
  if (difference <= tolerance) continue;
  isWrong = true;
  console.log(`  loss ${all[0].losses[0]} instead of ${reference.losses[0]}`);
}
mkdirSync(dirname(values.log), { recursive: true });
writeFileSync(values.log, `${log.join('\n')}\n`);
process.exit(isWrong ? 1 : 0);
