#!/usr/bin/env node
/**
 * npm run dev -- step-against-pytorch: compares the training step with PyTorch, eager and with torch.compile,
 * and with the rate of a large matmul, all in one run. The sides take turns, and the best run of each counts.
 * The raw logs of both sides are kept.
 *   npm run dev -- step-against-pytorch [--presets char-10m,gpt2-124m]
 *     [--dtypes float32,bfloat16] [--repeat 2] [--log FILE]
 * The PyTorch program is a script that prints a JSON line. MTL_PEER names the script, and MTL_PEER_PYTHON
 * names a Python with torch (default python3). Without a script, only our side is timed.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { hostInformation, matmul, setMatmulLibrary, setNumThreads, Tensor } from '@mtl/kernels';
import { findPeer } from './find-peer.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, '..', '..', '..');
const { values } = parseArgs({
  options: {
    presets: { type: 'string', default: 'char-10m,gpt2-124m' },
    dtypes: { type: 'string', default: 'float32,bfloat16' },
    threads: { type: 'string', default: '2' },
    repeat: { type: 'string', default: '2' },
    log: { type: 'string', default: join(root, 'apps', 'gpt-train', 'build', 'bench.jsonl') },
  },
});
const peer = findPeer(process.env);
const python = process.env.MTL_PEER_PYTHON ?? 'python3';
const threads = values.threads;
/** PyTorch's modes, with the flags of its script. */
const modes = { eager: [], 'torch.compile': ['--compile'] };
/** For each preset: the number of timed steps, the micro-batch sizes to try, and the target. */
const plans = {
  'char-10m': {
    iters: 8,
    warmup: 2,
    microBatches: [16],
    goals: { float32: 1.25, bfloat16: 1.4 },
    memory: { float32: 0.6, bfloat16: 0.6 },
  },
  'gpt2-124m': {
    iters: 3,
    warmup: 1,
    microBatches: [2],
    goals: { float32: 1.25, bfloat16: 1.4 },
    memory: { float32: 0.8, bfloat16: 0.85 },
  },
};
const log = [];

function run(command, args) {
  const result = spawnSync(command, args, { encoding: 'utf8', maxBuffer: 1 << 24 });
  if (result.status !== 0) throw new Error(`${command} ${args.join(' ')}\n${result.stderr}`);
  const line = result.stdout.trim().split('\n').at(-1);
  log.push(line);
  return JSON.parse(line);
}

function hasPeer() {
  return peer !== undefined && spawnSync(python, ['-c', 'import torch'], { stdio: 'ignore' }).status === 0;
}

/**
 * Returns the rate of a square matmul by `library`, in GFLOP/s. The faster rate is this machine's roofline.
 */
function matmulRate(dtype, library) {
  setMatmulLibrary(library);
  const size = 2048;
  const make = () => Tensor.zeros({ shape: [size, size], dtype });
  const [output, left, right] = [make(), make(), make()];
  let best = Number.POSITIVE_INFINITY;
  for (let attempt = 0; attempt < 6; attempt++) {
    const start = performance.now();
    matmul({ output, left, right });
    best = Math.min(best, performance.now() - start);
  }
  for (const tensor of [output, left, right]) tensor.dispose();
  return (2 * size ** 3) / best / 1e6;
}

/** The modes of PyTorch that failed on this machine, as torch.compile does without a compiler. */
const failedModes = new Set();

const best = (runs) => runs.reduce((a, b) => (b.tokens_per_s > a.tokens_per_s ? b : a));
const ours = (preset, dtype, plan, microBatch) =>
  run(process.execPath, [
    join(here, 'train-step.mjs'),
    ...['--preset', preset, '--dtype', dtype, '--threads', threads, '--micro-batch', String(microBatch)],
    ...['--iters', String(plan.iters), '--warmup', String(plan.warmup)],
  ]);
const theirs = (preset, dtype, plan, microBatch, mode) =>
  run(python, [
    peer,
    ...['--preset', preset, '--dtype', dtype, '--threads', threads, '--micro-batch', String(microBatch)],
    ...['--iters', String(plan.iters), '--warmup', String(plan.warmup), ...modes[mode]],
  ]);

/**
 * Returns the runs of PyTorch in each mode. A mode other than eager that fails is reported once and left out.
 */
function runsOfPeer(preset, dtype, plan, microBatch) {
  return Object.keys(modes).flatMap((mode) => {
    if (failedModes.has(mode)) return [];
    try {
      return [{ mode, ...theirs(preset, dtype, plan, microBatch, mode) }];
    } catch (error) {
      if (mode === 'eager') throw error;
      failedModes.add(mode);
      console.log(`left out ${mode}, which failed: ${error.message.trim().split('\n').at(-1)}`);
      return [];
    }
  });
}

setNumThreads(Number(threads));
const libraries = ['own', 'oneDNN'];
/** Returns the rates of our kernels and of oneDNN. */
const ratesOf = (dtype) => libraries.map((library) => matmulRate(dtype, library));
const dtypes = values.dtypes.split(',');
const rates = Object.fromEntries(dtypes.map((dtype) => [dtype, ratesOf(dtype)]));
const { instructionSet, onednnVersion } = hostInformation();
console.log(
  `${cpus()[0].model}, ${threads} threads, ${instructionSet}, oneDNN ${onednnVersion}, Node ${process.version}`,
);
for (const [dtype, [own, oneDNN]] of Object.entries(rates))
  console.log(`2048^3 in ${dtype}: ${own.toFixed(0)} GFLOP/s by our kernels, ${oneDNN.toFixed(0)} by oneDNN`);
const withPeer = hasPeer();
if (!withPeer)
  console.log(
    peer === undefined
      ? 'skipped the peer: MTL_PEER is not set'
      : `skipped the peer: ${python} has no torch (MTL_PEER_PYTHON names the Python that has)`,
  );

for (const preset of values.presets.split(',')) {
  const plan = plans[preset];
  for (const dtype of dtypes) {
    const [ourRuns, peerRuns] = [[], []];
    for (let repeat = 0; repeat < Number(values.repeat); repeat++) {
      for (const microBatch of plan.microBatches) {
        ourRuns.push(ours(preset, dtype, plan, microBatch));
        if (withPeer) peerRuns.push(...runsOfPeer(preset, dtype, plan, microBatch));
      }
    }
    const mine = best(ourRuns);
    const roofline = (mine.model_tflops * 1000) / Math.max(...rates[dtype]);
    console.log(
      `${preset} ${dtype}: ${mine.tokens_per_s} tokens/s, ${mine.step_ms} ms, ${mine.model_tflops} model TFLOP/s ` +
        `(${(roofline * 100).toFixed(0)} % of the matmul's rate), ${(mine.peak_bytes / 2 ** 20).toFixed(0)} MiB peak RSS, ` +
        `${(mine.outside_kernels * 100).toFixed(2)} % outside kernels`,
    );
    if (peerRuns.length === 0) continue;
    const other = best(peerRuns);
    const ofModes = Object.keys(modes)
      .map((mode) => [mode, peerRuns.filter((peerRun) => peerRun.mode === mode)])
      .map(
        ([mode, runs]) => `${mode} ${runs.length === 0 ? 'failed' : `${best(runs).tokens_per_s} tokens/s`}`,
      );
    const [speed, memory] = [mine.tokens_per_s / other.tokens_per_s, mine.peak_bytes / other.peak_bytes];
    const verdict = (good) => (good ? 'reached' : 'MISSED');
    console.log(
      `  ${other.peer}: ${ofModes.join(', ')}; ${(other.peak_bytes / 2 ** 20).toFixed(0)} MiB; ` +
        `speed x${speed.toFixed(2)} (goal ${plan.goals[dtype]}: ${verdict(speed >= plan.goals[dtype])}), ` +
        `memory x${memory.toFixed(2)} (goal ${plan.memory[dtype]}: ${verdict(memory <= plan.memory[dtype])})`,
    );
  }
}
mkdirSync(dirname(values.log), { recursive: true });
writeFileSync(values.log, `${log.join('\n')}\n`);
console.log(`raw results: ${values.log}`);
