#!/usr/bin/env node
/**
 * Times steps of the default run with the WebAssembly kernels, with the same sources compiled for SSE2
 * (`plain`, 128-bit vectors without fused multiplication and addition, without oneDNN), for SSE4.1, and with
 * the best native kernels of this machine; in Node.js 22 and newer also with relaxed SIMD. Each runs in its
 * own process, and the processes take turns step by step. The losses of the first three must have the same
 * bits. The fastest steps are compared, because other programs only make steps slower.
 *   npm run dev -- webassembly-steps [--threads 1,2] [--steps 10] [--by wall|cpu] [--profile]
 * `--by cpu` compares processor time. Use it on a machine with other users, and only with one thread, because
 * waiting threads take processor time, too. --profile prints the operations that take most of WebAssembly's
 * time. The exit status is 1 if WebAssembly takes more than 1.5 times as long as SSE2.
 */
import { fork } from 'node:child_process';
import { on } from 'node:events';
import { cpus, loadavg } from 'node:os';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const side = fileURLToPath(new URL('webassembly-side.mjs', import.meta.url));
const { values } = parseArgs({
  options: {
    threads: { type: 'string', default: '1,2' },
    steps: { type: 'string', default: '10' },
    by: { type: 'string', default: 'wall' },
    profile: { type: 'boolean', default: false },
  },
});
/** The largest allowed ratio of WebAssembly's time to the time with SSE2. */
const goal = 1.5;
const sides = [
  { name: 'WebAssembly', kernels: 'wasm' },
  { name: 'SSE2', kernels: 'native', instructionSet: 'plain', matmulLibrary: 'own' },
  { name: 'SSE4.1', kernels: 'native', instructionSet: 'sse4', matmulLibrary: 'own' },
  { name: 'native', kernels: 'native' },
  ...(Number.parseInt(process.versions.node, 10) < 22
    ? []
    : [{ name: 'relaxed SIMD', kernels: 'wasm-relaxed' }]),
];
const numSteps = Number(values.steps);

/** Starts the process of a side. Returns the side's properties with functions that send it messages. */
async function startSide({ name, kernels, ...options }, threads) {
  const env = { ...process.env, MTL_KERNELS: kernels };
  const child = fork(side, [JSON.stringify({ ...options, threads })], { env });
  const messages = on(child, 'message', { close: ['exit'] });
  const next = async () => {
    const { value, done } = await messages.next();
    if (done) throw new Error(`${name} ended before its answer`);
    return value[0];
  };
  const { instructionSet = 'simd128' } = await next();
  const ask = (message) => {
    child.send(message);
    return next();
  };
  return { name, instructionSet, ask, times: [] };
}

async function compare(threads) {
  const started = [];
  for (const each of sides) started.push(await startSide(each, threads));
  for (let step = 0; step < numSteps; step++) {
    const losses = [];
    for (const each of started) {
      const { loss, [values.by]: ms } = await each.ask('step');
      losses.push(loss);
      // in the first step, threads are also started, and the engine compiles the code
      if (step > 0) each.times.push(ms);
    }
    if (new Set(losses.slice(0, 3)).size > 1)
      throw new Error(`step ${step + 1}: losses ${losses.slice(0, 3).join(', ')}, expected the same`);
  }
  const operations = [];
  for (const { ask } of started) operations.push(new Map(await ask('end')));
  const [ours, same, , best, relaxed] = started.map(({ times }) => Math.min(...times));
  const words = started.map(({ name, instructionSet, times }) => {
    return `${name} (${instructionSet}) ${Math.min(...times).toFixed(0)} ms`;
  });
  const ratio = ours / same;
  const verdict = ratio <= goal ? '' : ` MISSED, at most ${goal} expected`;
  console.log(
    `threads ${threads}: ${words.join(', ')}; WebAssembly takes ${ratio.toFixed(2)} times as long as SSE2` +
      `${verdict}, and ${(ours / best).toFixed(1)} times as long as the best native kernels` +
      (relaxed === undefined
        ? ''
        : `; relaxed SIMD ${(relaxed / ours).toFixed(2)} times as long as WebAssembly`),
  );
  if (values.profile) printOperations(operations);
  return ratio <= goal;
}

/** Prints the operations that take most of the first side's time, with the times of all sides. */
function printOperations(operations) {
  const rows = [...operations[0]].sort((a, b) => b[1] - a[1]).slice(0, 16);
  for (const [name, seconds] of rows) {
    const times = operations.map((of) => (((of.get(name) ?? 0) / numSteps) * 1000).toFixed(1).padStart(8));
    const ratio = (seconds / operations[1].get(name)).toFixed(2);
    console.log(`  ${name.padEnd(34)} ${times.join(' ')} ms a step; ${ratio} times SSE2`);
  }
}

if (!['wall', 'cpu'].includes(values.by)) throw new Error(`--by is ${values.by}, expected wall or cpu`);
console.log(`${cpus()[0].model.trim()}, Node ${process.version}, load ${loadavg()[0].toFixed(1)}`);
let isMet = true;
for (const threads of values.threads.split(',').map(Number)) isMet = (await compare(threads)) && isMet;
process.exitCode = isMet ? 0 : 1;
