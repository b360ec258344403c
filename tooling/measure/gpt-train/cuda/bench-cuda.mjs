#!/usr/bin/env node
/**
 * npm run dev -- bench:cuda: compares the training step on a GPU with PyTorch on the same GPU, model by
 * model: first the losses, then the speed of each side with its best micro-batch size. After each
 * measurement, writes a Markdown table, and all results as JSON, so that an interrupted run keeps its
 * results. A failed measurement is recorded, and the remaining measurements continue. If PyTorch fails, it is
 * tried again without torch.compile, and the result is marked. If losses differ, the table says so, because
 * the speeds then prove nothing. The exit status is 1 if a goal is missed, if losses differ or were not
 * compared, or if a measurement failed, and 2 without PyTorch.
 *   node tooling/measure/gpt-train/cuda/bench-cuda.mjs [--presets gpt2-124m,gpt2-1.3b] [--iters 10] [--warmup 3]
 *     [--out DIRECTORY] [--device cuda] [--dtype bfloat16] [--no-compile] [--skip-losses]
 *     [--seconds 900]                the maximum time of one measurement
 *     [--profile FILE.json]          the profile that mtl calibrate measured on this GPU, to predict our steps
 *     [--fixed]                      only the first micro-batch size of each plan, for a quick look
 *     [--dry-run]                    tiny models, with PyTorch on the processor: checks the command, not the GPU.
 *                                    With --device cpu, our side also runs on the processor, for machines
 *                                    with neither a GPU nor its emulation
 * MTL_PEER names the script that times PyTorch, and MTL_PEER_PYTHON names a Python with torch (default
 * python3). Without a script, only our side is timed.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { openProfile } from '@mtl/cost-model';
import { benchmarkPresets, llamaWidths } from '../benchmark-presets.mjs';
import { findPeer } from '../find-peer.mjs';
import { formatTable } from './format-table.mjs';
import { gpuDataSheet } from './gpu-data-sheets.mjs';
import { judge } from './judge.mjs';
import { lossesAgree } from './losses-agree.mjs';
import { comparedPresets, plans } from './plans.mjs';
import { predictStep } from './predict-step.mjs';
import { peerEnvironment, runMeasurement } from './run-measurement.mjs';
import { searchMicroBatch } from './search-micro-batch.mjs';

const here = fileURLToPath(new URL('.', import.meta.url));
const root = join(here, '../../../..');
const { values } = parseArgs({
  options: {
    presets: { type: 'string' },
    iters: { type: 'string', default: '10' },
    warmup: { type: 'string', default: '3' },
    out: { type: 'string', default: join(root, 'apps/gpt-train/build/bench-cuda') },
    device: { type: 'string', default: 'cuda' },
    dtype: { type: 'string', default: 'bfloat16' },
    'no-compile': { type: 'boolean', default: false },
    'skip-losses': { type: 'boolean', default: false },
    seconds: { type: 'string', default: '900' },
    profile: { type: 'string' },
    fixed: { type: 'boolean', default: false },
    'dry-run': { type: 'boolean', default: false },
  },
});
const { device, dtype } = values;
const isDryRun = values['dry-run'];
const presetNames =
  values.presets?.split(',') ?? (isDryRun ? ['cuda-dry-run', 'llama-dry-run'] : comparedPresets);
const unknown = presetNames.filter((name) => plans[name] === undefined);
if (unknown.length > 0) {
  const known = Object.keys(plans).join(', ');
  console.error(`error[MTL_FLAG_VALUE]: --presets ${unknown.join(',')} is not known; there are ${known}`);
  process.exit(2);
}
const seconds = Number(values.seconds);
if (!(seconds > 0)) {
  console.error(`error[MTL_FLAG_VALUE]: --seconds ${values.seconds} is no number above 0`);
  process.exit(2);
}
const hasProfile = values.profile !== undefined && existsSync(values.profile);
if (values.profile !== undefined && !hasProfile)
  console.log(`no step is predicted: there is no profile ${values.profile}`);
const profile = hasProfile ? openProfile({ name: values.profile, variables: {} }) : undefined;
const peerScript = findPeer(process.env);
const directory = resolve(values.out);
mkdirSync(directory, { recursive: true });
const python = process.env.MTL_PEER_PYTHON ?? 'python3';
// PyTorch cannot use the emulated GPU
const peerDevice = isDryRun ? 'cpu' : device;

/**
 * Returns the facts that PyTorch reports about its version and the GPU; undefined if the comparison program
 * or torch is missing.
 */
function describePeer() {
  if (peerScript === undefined) return undefined;
  const script =
    'import torch, json; c = torch.cuda.is_available(); ' +
    'print(json.dumps(dict(torch=torch.__version__, cuda=torch.version.cuda, device=torch.cuda.get_device_name() if c else "cpu")))';
  const result = spawnSync(python, ['-c', script], { encoding: 'utf8', env: peerEnvironment() });
  return result.status === 0 ? JSON.parse(result.stdout) : undefined;
}

function describeOurs() {
  const commit = spawnSync('git', ['-C', root, 'rev-parse', 'HEAD'], { encoding: 'utf8' });
  const bundled = process.env.MTL_BUNDLE_COMMIT;
  return {
    commit: bundled ?? (commit.status === 0 ? commit.stdout.trim() : 'unknown'),
    node: process.version,
    processor: cpus()[0]?.model,
    // a separate process is used, because a context on the GPU would reduce the memory for the measurements
    ...(device === 'cuda'
      ? {
          cuda: runMeasurement({
            command: process.execPath,
            args: [join(root, 'tooling/measure/kernels/cuda/describe-gpu.mjs')],
          }),
        }
      : {}),
  };
}

const steps = ['--iters', values.iters, '--warmup', values.warmup, '--dtype', dtype];
// our side uses all cores, as PyTorch does; on the host, only making the initial weights takes time, but
// nothing in a step does
const threads = String(availableParallelism());
const measureOurs = (preset) => (microBatch) =>
  runMeasurement({
    command: process.execPath,
    seconds,
    args: [
      join(here, '../train-step.mjs'),
      ...['--preset', preset, '--device', device, '--micro-batch', String(microBatch), ...steps],
      ...['--threads', threads],
    ],
  });
const isCompiling = !(values['no-compile'] || isDryRun);
const runTheirs = (preset, microBatch, compile) =>
  runMeasurement({
    command: python,
    seconds,
    args: [
      ...[join(here, 'peer_step.py'), peerScript],
      JSON.stringify({ name: preset, shape: benchmarkPresets[preset], llama: llamaWidths[preset] }),
      ...['--device', peerDevice, '--micro-batch', String(microBatch), ...steps],
      ...(compile ? ['--compile'] : []),
    ],
    env: peerEnvironment(),
  });
const measureTheirs = (preset) => (microBatch) => {
  if (!isCompiling) return runTheirs(preset, microBatch, false);
  try {
    return runTheirs(preset, microBatch, true);
  } catch (error) {
    console.log(
      `    micro-batch ${microBatch}: torch.compile failed, once more without it\n${error.message}`,
    );
    return { ...runTheirs(preset, microBatch, false), not_compiled: error.message };
  }
};

function say(result) {
  const text = result.out_of_memory
    ? 'out of memory'
    : result.error
      ? `FAILED: ${result.error}`
      : `${result.tokens_per_s} tokens/s, ${result.step_ms} ms, ${(result.peak_bytes / 2 ** 30).toFixed(2)} GiB`;
  console.log(`    micro-batch ${result.micro_batch}: ${text}`);
}

/** Runs a measurement. Returns a failure as a result, so that the rest of the table is still measured. */
function measureOrError(measure, microBatch) {
  try {
    return measure(microBatch);
  } catch (error) {
    return { error: error.message };
  }
}

/**
 * Searches for the best micro-batch size of one side of the comparison. After each measurement, calls `keep`
 * with the results so far.
 */
function search(name, preset, { measure, keep }) {
  console.log(`  ${name}`);
  const sofar = [];
  keep(sofar);
  const { microBatches } = plans[preset];
  const candidates = values.fixed ? microBatches.slice(0, 1) : microBatches;
  return searchMicroBatch({
    candidates,
    measure: (microBatch) => {
      const result = { micro_batch: microBatch, ...measureOrError(measure, microBatch) };
      if (result.error) report.failures.push({ preset, side: name, ...result });
      say(result);
      sofar.push(result);
      save();
      return result;
    },
  });
}

/**
 * Predicts the time and the memory of our best step. Returns undefined without a profile or a best step, or
 * if the planner fails.
 */
async function predict(preset, best) {
  if (profile === undefined || best === undefined) return undefined;
  const { micro_batch: microBatch } = best;
  try {
    const predicted = await predictStep({ profile, preset, microBatch, dtype });
    console.log(`  predicted: ${predicted.step_ms.toFixed(1)} ms`);
    return predicted;
  } catch (error) {
    console.log(`  not predicted: ${error.message}`);
    report.failures.push({ preset, side: 'planner', micro_batch: microBatch, error: error.message });
    return undefined;
  }
}

const report = {
  date: new Date().toISOString(),
  isDryRun,
  ours: describeOurs(),
  peer: describePeer() ?? null,
  losses: null,
  failures: [],
  rows: [],
  searches: [],
};
const { cuda } = report.ours;
/** The GPU, with the name that the driver reports. */
const gpu = cuda?.devices[cuda.deviceIndex];
const peakTflops = gpuDataSheet(gpu?.name)?.peakTflops;
function save() {
  const { ours, losses } = report;
  const { commit } = ours;
  const where = gpu
    ? `${gpu.name} (${(gpu.memoryBytes / 2 ** 30).toFixed(1)} GiB), cuBLASLt ${cuda.cublasLtVersion}`
    : device;
  const header = `${report.date}, ${where}, commit ${commit}, ${report.peer ? `PyTorch ${report.peer.torch} on ${report.peer.device}` : 'without PyTorch'}, ${dtype}${losses !== null && !losses.agree ? '; LOSSES DIFFER: figures prove nothing' : ''}${isDryRun ? '; a dry run: figures mean nothing' : cuda?.isEmulated ? '; on an emulation: figures mean nothing' : ''}`;
  writeFileSync(join(directory, 'bench-cuda.json'), `${JSON.stringify(report, null, 1)}\n`);
  writeFileSync(join(directory, 'bench-cuda.md'), `${header}\n\n${formatTable(report.rows, peakTflops)}\n`);
}

if (report.peer === null) {
  console.log(
    peerScript === undefined
      ? 'only ours: MTL_PEER is not set'
      : `only ours: ${python} has no torch (MTL_PEER_PYTHON names the Python that has)`,
  );
}
let isUnproven = false;
if (!values['skip-losses']) {
  report.losses = lossesAgree({
    device: peerDevice,
    directory,
    seconds,
    python: report.peer === null ? undefined : python,
  });
  save();
  const { agree, numCompared } = report.losses;
  if (!agree || (device === 'cuda' && numCompared === 0)) {
    const what = agree ? 'no losses were compared' : 'losses differ';
    console.error(`error[MTL_BENCH_LOSSES]: ${what}, so speed proves nothing; it is timed all the same`);
    isUnproven = true;
  }
}
for (const preset of presetNames) {
  console.log(preset);
  const searched = { preset, ours: null, theirs: null };
  report.searches.push(searched);
  const searchSide = (side, name, measure) =>
    search(name, preset, {
      measure,
      keep: (results) => {
        searched[side] = results;
      },
    });
  const ours = searchSide('ours', 'ours', measureOurs(preset));
  const theirs = report.peer === null ? undefined : searchSide('theirs', 'PyTorch', measureTheirs(preset));
  const predicted = await predict(preset, ours.best);
  report.rows.push(judge({ preset, ours, theirs, predicted, peakTflops }));
  save();
}
console.log(`\n${formatTable(report.rows, peakTflops)}\n\n${join(directory, 'bench-cuda.{md,json}')}`);
const missed = report.rows.flatMap(({ preset, checks }) =>
  checks.filter(({ reached }) => !reached).map((one) => ({ preset, ...one })),
);
for (const { preset, name, value, goal } of missed) {
  console.log(
    `missed: ${preset} ${name}: ${value === null ? 'not measured' : value.toFixed(3)}, asked for ${goal}`,
  );
}
for (const { preset, side, micro_batch } of report.failures) {
  console.log(`failed: ${preset} ${side} at micro-batch ${micro_batch} (above, and in bench-cuda.json)`);
}
if (report.failures.length > 0 || isUnproven) process.exit(1);
if (report.peer === null) process.exit(2);
if (isDryRun) {
  console.log('a dry run: goals are not judged');
  process.exit(0);
}
process.exit(missed.length === 0 ? 0 : 1);
