#!/usr/bin/env node
/**
 * Times steps of the default run with kernels as WebAssembly, with the same sources compiled for 128-bit
 * vectors without fused multiplication and addition (sse4, without oneDNN), and with the best native kernels
 * of this machine. Each is a process of its own; they take turns step by step. Losses of the first two are
 * compared bit for bit. The fastest step of each is compared, since other programs only make steps slower.
 *   npm run dev -- webassembly-steps [--threads 1,2] [--steps 10] [--profile]
 * --profile prints the operations with the largest share of WebAssembly's time. The exit status is 1 where
 * WebAssembly takes more than 1.5 times as long as sse4.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { cpus, loadavg } from 'node:os';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const side = fileURLToPath(new URL('webassembly-side.mjs', import.meta.url));
const { values } = parseArgs({
  options: {
    threads: { type: 'string', default: '1,2' },
    steps: { type: 'string', default: '10' },
    profile: { type: 'boolean', default: false },
  },
});
/** At most so many times as long as sse4. */
const goal = 1.5;
const sides = [
  { name: 'WebAssembly', kernels: 'wasm' },
  { name: 'sse4', kernels: 'native', instructionSet: 'sse4', matmulLibrary: 'own' },
  { name: 'native', kernels: 'native' },
];
const numSteps = Number(values.steps);

/** Starts a side and returns it with functions to ask it. */
async function startSide({ name, kernels, ...options }, threads) {
  const env = { ...process.env, MTL_KERNELS: kernels };
  const child = fork(side, [JSON.stringify({ ...options, threads })], { env });
  const next = async () => {
    const [message] = await Promise.race([
      once(child, 'message'),
      once(child, 'exit').then(([code]) => Promise.reject(new Error(`${name} ended with ${code}`))),
    ]);
    return message;
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
      const { loss, ms } = await each.ask('step');
      losses.push(loss);
      // the first step also starts threads, and the engine compiles what it computes
      if (step > 0) each.times.push(ms);
    }
    if (losses[0] !== losses[1])
      throw new Error(`step ${step + 1}: loss ${losses[0]} on WebAssembly, ${losses[1]} on sse4`);
  }
  const operations = [];
  for (const { ask } of started) operations.push(new Map(await ask('end')));
  const [ours, same, best] = started.map(({ times }) => Math.min(...times));
  const words = started.map(({ name, instructionSet, times }) => {
    const set = name === instructionSet ? '' : ` (${instructionSet})`;
    return `${name}${set} ${Math.min(...times).toFixed(0)} ms`;
  });
  const ratio = ours / same;
  const verdict = ratio <= goal ? '' : ` MISSED, at most ${goal} expected`;
  console.log(
    `threads ${threads}: ${words.join(', ')}; WebAssembly takes ${ratio.toFixed(2)} times as long as sse4` +
      `${verdict}, and ${(ours / best).toFixed(1)} times as long as the best native kernels`,
  );
  if (values.profile) printOperations(operations);
  return ratio <= goal;
}

/** Prints the operations with the largest share of the time of the first side, with the others' times. */
function printOperations(operations) {
  const rows = [...operations[0]].sort((a, b) => b[1] - a[1]).slice(0, 16);
  for (const [name, seconds] of rows) {
    const times = operations.map((of) => (((of.get(name) ?? 0) / numSteps) * 1000).toFixed(1).padStart(8));
    const ratio = (seconds / operations[1].get(name)).toFixed(2);
    console.log(`  ${name.padEnd(34)} ${times.join(' ')} ms a step; ${ratio} times sse4`);
  }
}

console.log(`${cpus()[0].model.trim()}, Node ${process.version}, load ${loadavg()[0].toFixed(1)}`);
let isMet = true;
for (const threads of values.threads.split(',').map(Number)) isMet = (await compare(threads)) && isMet;
process.exitCode = isMet ? 0 : 1;
