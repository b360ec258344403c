#!/usr/bin/env node
/**
 * npm run dev -- sharded-training [--size 1.3b|60m] [--directory DIR] [--keep]
 *
 * Trains a GPT whose parameters, gradients and moments are sharded over four ranks of this machine: 10 steps
 * with full recomputation in bf16, a checkpoint after step 8, and the last steps again from that checkpoint.
 * Memory and disk are checked first. Fails unless the memory of every rank agrees with `mtl plan`, a rank has
 * at most 0.3 of one process's states, the loss falls, and the resumed steps have the same losses and norms.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { readMetrics } from '@mtl/tooling/read-metrics';

const numRanks = 4;
const [numSteps, savedStep] = [10, 8];
/** The largest fraction of one process's parameters, gradients and moments that a rank may have. */
const largestShare = 0.3;
/**
 * The bytes that a rank needs in addition to its tensors, for Node.js, its libraries, and message buffers.
 */
const bytesOfProcess = 0.5e9;
/**
 * The bytes for the metrics of a step, which are read after the next step has begun. A dry run does not count
 * these bytes, because it has no metrics.
 */
const bytesOfMetrics = 4096;

const sizes = {
  '1.3b': { layers: 24, hidden: 2048, heads: 16, vocabulary: 50_304 },
  '60m': { layers: 12, hidden: 512, heads: 8, vocabulary: 40_960 },
};

const { values } = parseArgs({
  options: {
    size: { type: 'string', default: '1.3b' },
    directory: { type: 'string', default: tmpdir() },
    keep: { type: 'boolean', default: false },
  },
});
const mtl = fileURLToPath(new URL('../../../packages/cli/bin/mtl.mjs', import.meta.url));

/** An error that ends the program with a one-line message, after `finally` has removed the folder. */
class Failure extends Error {}
function fail(message) {
  throw new Failure(`error[MTL_SHARDED_TRAINING]: ${message}`);
}
process.on('uncaughtException', (error) => {
  console.error(error instanceof Failure ? error.message : error);
  process.exitCode = 1;
});

function listFlags({ layers, hidden, heads, vocabulary }) {
  return [
    ...['--preset', 'none', '--num-layers', `${layers}`, '--hidden-size', `${hidden}`],
    ...['--num-attention-heads', `${heads}`, '--seq-length', '256', '--max-position-embeddings', '256'],
    ...['--tokenizer-type', 'NullTokenizer', '--vocab-size', `${vocabulary}`, '--mock-data'],
    ...['--micro-batch-size', '1', '--global-batch-size', `${numRanks}`, '--bf16', '--lr', '1e-4'],
    ...['--recompute-granularity', 'full', '--recompute-method', 'uniform', '--recompute-num-layers', '1'],
    ...['--use-precision-aware-optimizer', '--exp-avg-dtype', 'bf16', '--exp-avg-sq-dtype', 'bf16'],
    ...['--main-grads-dtype', 'bf16', '--train-iters', `${numSteps}`, '--eval-iters', '0'],
    ...['--log-interval', '1', '--device', 'cpu', '--threads', '1'],
  ];
}

/** Returns the memory that `mtl plan` counts for a rank, in bytes by kind. */
function countMemory(flags, numProcesses) {
  const plan = ['plan', '--profile', 'h100-80gb', '--num-processes', `${numProcesses}`, '--json', '--'];
  const { status, stdout, stderr } = spawnSync(process.execPath, [mtl, ...plan, ...flags], {
    encoding: 'utf8',
  });
  if (status !== 0) fail(`mtl plan ended with ${status}: ${stderr.trim()}`);
  const { ranks, numParameters } = JSON.parse(stdout);
  const { memoryBytes, memoryByKind } = ranks[0];
  const { parameters, gradients, optimizer } = memoryByKind;
  return { numParameters, peak: memoryBytes, states: parameters + gradients + optimizer };
}

/** Trains on four ranks. Returns the records of the steps, the peak of each rank, and the seconds. */
function train(flags, metrics) {
  const begun = performance.now();
  const run = ['run', '--nproc-per-node', `${numRanks}`, 'gpt', '--'];
  const { status, signal } = spawnSync(
    process.execPath,
    [mtl, ...run, ...flags, '--metrics-jsonl', metrics],
    {
      cwd: dirname(metrics),
      stdio: 'inherit',
    },
  );
  if (status !== 0) fail(`the training run ended with ${status ?? signal}`);
  const records = readFileSync(metrics, 'utf8').trim().split('\n');
  const peaks = records.map((line) => JSON.parse(line)).findLast(({ type }) => type === 'ranks').peak_bytes;
  return { steps: readMetrics(metrics), peaks, seconds: (performance.now() - begun) / 1000 };
}

const gigabytes = (bytes) => `${(bytes / 1e9).toFixed(1)} GB`;

/** Returns the bytes that processes can take: of the machine, at most the limit of this container. */
function availableMemory() {
  const free = Number(/MemAvailable:\s+(\d+)/.exec(readFileSync('/proc/meminfo', 'utf8'))[1]) * 1024;
  // 0 or more than any machine has if there is no limit
  const limit = process.constrainedMemory();
  return limit > 0 ? Math.min(free, limit) : free;
}

function checkRoom({ memory, disk, directory }) {
  const available = availableMemory();
  const { bavail, bsize } = statfsSync(directory);
  console.log(
    `memory ${gigabytes(memory)} of ${gigabytes(available)}, disk ${gigabytes(disk)} of ${gigabytes(bavail * bsize)}`,
  );
  if (memory > available) fail(`${gigabytes(memory)} of memory are needed, ${gigabytes(available)} are free`);
  if (disk > bavail * bsize) fail(`${gigabytes(disk)} are needed in ${directory}; --directory names another`);
}

if (!Object.hasOwn(sizes, values.size)) {
  fail(`--size ${values.size} is not known; expected ${Object.keys(sizes).join(' or ')}`);
}
const flags = listFlags(sizes[values.size]);
const sharded = [...flags, '--use-megatron-fsdp'];
const planned = countMemory(sharded, numRanks);
const whole = countMemory(flags, 1);
const share = planned.states / whole.states;
mkdirSync(values.directory, { recursive: true });
checkRoom({
  memory: numRanks * (planned.peak + bytesOfProcess),
  // two checkpoints, each with float32 weights and bfloat16 moments
  disk: 2 * 8 * planned.numParameters,
  directory: values.directory,
});
const directory = mkdtempSync(join(resolve(values.directory), 'sharded-training-'));
try {
  const saved = join(directory, 'saved');
  const saving = ['--save', saved, '--save-interval', `${savedStep}`];
  const first = train([...sharded, ...saving], join(directory, 'first.jsonl'));
  rmSync(join(saved, `iter_${String(numSteps).padStart(7, '0')}`), { recursive: true });
  const loading = ['--load', saved, '--ckpt-step', `${savedStep}`, '--save', join(directory, 'resumed')];
  const resumed = train([...sharded, ...loading], join(directory, 'resumed.jsonl'));
  report({ first, resumed });
} finally {
  if (!values.keep) rmSync(directory, { recursive: true, force: true });
}

function report({ first, resumed }) {
  const peak = Math.max(...first.peaks);
  const median = first.steps.map(({ step_ms }) => step_ms).sort((a, b) => a - b)[numSteps / 2];
  const losses = first.steps.map(({ lm_loss }) => lm_loss);
  console.log(`parameters            ${(planned.numParameters / 1e6).toFixed(1)} M on ${numRanks} ranks`);
  console.log(`states of a rank      ${gigabytes(planned.states)}, ${share.toFixed(3)} of one process's`);
  console.log(`peak of a rank        ${peak} bytes of tensors, planned ${planned.peak}`);
  console.log(
    `loss                  ${losses[0].toFixed(4)} to ${losses.at(-1).toFixed(4)} in ${numSteps} steps`,
  );
  console.log(`median of a step      ${(median / 1000).toFixed(2)} s`);
  console.log(`first and resumed run ${first.seconds.toFixed(0)} s and ${resumed.seconds.toFixed(0)} s`);
  if (share > largestShare) fail(`a rank has ${share} of one process's states; at most ${largestShare}`);
  if (peak < planned.peak || peak > planned.peak + bytesOfMetrics) fail('mtl plan counts another peak');
  if (!(losses.at(-1) < losses[0])) fail('the loss did not fall');
  const compared = ['iteration', 'lm_loss', 'grad_norm'];
  const numbers = ({ steps }) =>
    steps.filter(({ iteration }) => iteration > savedStep).map((step) => compared.map((key) => step[key]));
  const [expected, found] = [first, resumed].map((run) => JSON.stringify(numbers(run)));
  if (numbers(first).length !== numSteps - savedStep || expected !== found) {
    fail(`the resumed steps have other numbers: ${found}; expected ${expected}`);
  }
  console.log(`resumed steps         ${savedStep + 1} to ${numSteps} have the same losses and norms`);
}
