#!/usr/bin/env node
/**
 * Runs everything that needs a GPU, in a checkout that is built or in a bundle (through `run-on-gpu.sh`).
 * node tooling/cuda/run-on-gpu.mjs tests|sanitizer|kernels|bench|all [--out DIRECTORY] [--minutes NUMBER]
 * [--pack FILE.tar.gz] [--peer FILE] [--python PROGRAM] [--emulation] [--only TEXT]
 * [-- arguments for bench-cuda.mjs]
 * Results are written to --out, to the folder in the variable OUT, or to ./results: a log STAGE.log for each
 * stage, and results-STAGE.json (results-all.json for all). The JSON file lists the steps that ran, each with
 * how it ended, its seconds and its skipped tests. It is written after every step, so that an interrupted run
 * keeps its results. The program ends with status 1 if a step failed or exceeded its time limit, and
 * immediately if no GPU can be opened. After a failed step, the remaining steps still run; if a kernel for
 * Hopper fails, they use the kernels for any GPU. --minutes limits the whole run, for rented machines, so
 * that steps share the time (see run-steps.mjs). --pack also keeps everything in --out in a compressed file,
 * which is updated after every step, for systems that return only few and small files. --peer names the
 * comparison program for PyTorch, and --python names the Python that has torch; the variables MTL_PEER and
 * MTL_PEER_PYTHON do the same. --emulation uses the library compiled for the processor instead of a GPU, and
 * a tiny model, to test this program. --only runs only the tests whose names contain the given text.
 */
import { spawnSync } from 'node:child_process';
import { createWriteStream, existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { emulatedFiles, emulatedLibraries } from '@mtl/cuda-emulation/libraries';
import { packResults } from './pack-results.mjs';
import { runSteps } from './run-steps.mjs';
import { skippedTests } from './skipped-tests.mjs';
import { listStages } from './stages.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));
// the most informative stages come first; the sanitizers come last, because they take the longest time
const stageNames = ['tests', 'kernels', 'bench', 'sanitizer'];
const usage = `usage: ${stageNames.join('|')}|all [--out DIRECTORY] [--minutes NUMBER] [--pack FILE.tar.gz] [--peer FILE] [--python PROGRAM] [--emulation] [--only TEXT] [-- arguments of the bench]`;

function fail(message) {
  console.error(`error[MTL_ON_CARD]: ${message}\n  remedy: ${usage}`);
  process.exit(2);
}

/** Returns the path of compute-sanitizer, which is on PATH or in a CUDA toolkit. */
function findSanitizer() {
  const installed = existsSync('/usr/local')
    ? readdirSync('/usr/local').filter((name) => name.startsWith('cuda'))
    : [];
  const toolkits = [
    process.env.CUDA_HOME,
    process.env.CUDA_PATH,
    ...installed.map((name) => join('/usr/local', name)),
  ];
  const candidates = toolkits.filter(Boolean).map((toolkit) => join(toolkit, 'bin', 'compute-sanitizer'));
  return ['compute-sanitizer', ...candidates].find(
    (program) => spawnSync(program, ['--version'], { stdio: 'ignore' }).status === 0,
  );
}

function readArguments() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        out: { type: 'string', default: process.env.OUT || 'results' },
        minutes: { type: 'string', default: 'Infinity' },
        pack: { type: 'string' },
        peer: { type: 'string' },
        python: { type: 'string' },
        emulation: { type: 'boolean', default: false },
        only: { type: 'string' },
      },
      args: argumentsBefore,
    });
  } catch (error) {
    return fail(error.message);
  }
}

const given = process.argv.slice(2);
const dashes = given.indexOf('--');
const argumentsBefore = dashes < 0 ? given : given.slice(0, dashes);
const benchArguments = dashes < 0 ? [] : given.slice(dashes + 1);
const { values, positionals } = readArguments();
const [wanted, ...more] = positionals;
if (more.length > 0 || ![...stageNames, 'all'].includes(wanted))
  fail(`${positionals.join(' ') || 'nothing'} is no stage`);
if (values.pack !== undefined && resolve(values.pack).startsWith(resolve(values.out) + sep))
  fail(`--pack ${values.pack} is in the folder that it packs`);
const started = performance.now();
const minutes = Number(values.minutes);
if (!(minutes > 0)) fail(`--minutes ${values.minutes} is no number above 0`);
if (values.python !== undefined) process.env.MTL_PEER_PYTHON = values.python;
if (values.peer !== undefined) {
  if (!existsSync(values.peer)) fail(`--peer ${values.peer} is not there`);
  process.env.MTL_PEER = resolve(values.peer);
}
const out = resolve(values.out);
mkdirSync(out, { recursive: true });

process.env.NO_COLOR = '1'; // no colours, since the output is kept as a log
const kernels = join(root, 'packages/kernels');
// the cuBLASLt and NCCL of the peer's PyTorch are found through the python3 on PATH
const { MTL_PEER_PYTHON } = process.env;
if (MTL_PEER_PYTHON?.includes('/')) {
  process.env.MTL_PEER_PYTHON = resolve(MTL_PEER_PYTHON);
  process.env.PATH = [dirname(process.env.MTL_PEER_PYTHON), process.env.PATH].join(delimiter);
}
if (values.emulation) {
  const libraries = emulatedLibraries();
  if (libraries === undefined) {
    console.error(
      `error[MTL_ON_CARD]: the emulation is not built: ${emulatedFiles.join(', ')}\n  remedy: npm run dev -- test:cuda --emulation --build-only`,
    );
    process.exit(2);
  }
  Object.assign(process.env, libraries);
} else {
  process.env.MTL_CUDA_LIBRARY ??= join(kernels, 'build/Cuda/libmtl_cuda.so');
}
/** Returns a description of the GPU and its libraries or, without a GPU, the error of openCuda. */
function describeGpu() {
  const script = join(root, 'tooling/measure/kernels/cuda/describe-gpu.mjs');
  const options = { encoding: 'utf8', timeout: 120_000, killSignal: 'SIGKILL' };
  const { status, stdout, stderr } = spawnSync(process.execPath, [script], options);
  return status === 0
    ? JSON.parse(stdout)
    : {
        error: stderr.trim().split('\n').slice(-12).join('\n') || 'the GPU did not answer in two minutes',
      };
}

const gpu = describeGpu();
// native programs search for cuBLASLt only by name, so they would not find the library in a Python
// environment
if (gpu.cublasLtPath?.startsWith('/')) {
  const folders = [dirname(gpu.cublasLtPath), process.env.MTL_CUDA_LIBS];
  process.env.MTL_CUDA_LIBS = folders.filter(Boolean).join(delimiter);
}
const stages = listStages({
  root,
  out,
  benchArguments,
  emulation: values.emulation,
  only: values.only,
  sanitizer: values.emulation ? undefined : findSanitizer(),
});
const results = { date: new Date().toISOString(), emulation: values.emulation, card: gpu, steps: [] };
const resultsFile = join(out, `results-${wanted}.json`);
function save() {
  writeFileSync(resultsFile, `${JSON.stringify(results, null, 1)}\n`);
  if (values.pack !== undefined) packResults({ folder: out, file: resolve(values.pack) });
}
save();
if (gpu.error !== undefined) {
  // without a device, every test would be skipped and the run would pass
  console.error(`error[MTL_ON_CARD]: device cuda cannot be opened\n${gpu.error}\n${resultsFile}`);
  process.exit(1);
}
if (gpu.isEmulated !== values.emulation) {
  // results of the emulation must not look like results of a GPU, and vice versa
  console.error(
    gpu.isEmulated
      ? 'error[MTL_ON_CARD]: MTL_CUDA_LIBRARY names the emulation, which is no GPU\n  remedy: pass --emulation, or unset the variable'
      : 'error[MTL_ON_CARD]: --emulation was given, but a GPU was opened\n  remedy: leave --emulation out',
  );
  process.exit(1);
}
const wantedStages = wanted === 'all' ? stageNames : [wanted];
const steps = wantedStages.flatMap((stage) => stages[stage].map((step) => ({ stage, ...step })));
if (wanted !== 'sanitizer')
  steps.unshift(...stages.guards.map((guard) => ({ stage: wantedStages[0], ...guard })));
const logs = Object.fromEntries(
  wantedStages.map((stage) => [stage, createWriteStream(join(out, `${stage}.log`))]),
);
await runSteps({
  steps,
  minutes: minutes - (performance.now() - started) / 60_000,
  logOf: ({ stage }) => logs[stage],
  keep: ({ stage, name, isInformation = false, report }, { status, seconds, otherwise }) => {
    results.steps.push({
      stage,
      name,
      status,
      seconds,
      isInformation,
      // skipped tests are not recorded under emulation or with --only, because both leave tests out
      ...(values.emulation || values.only !== undefined ? {} : { skipped: skippedTests(report) }),
    });
    results.otherwise = otherwise;
    save();
  },
});
for (const log of Object.values(logs)) await new Promise((done) => log.end(done));
save(); // save again, since the logs are complete only now
console.log(`\n${resultsFile}`);
for (const { stage, name, status, seconds, skipped = [] } of results.steps) {
  const without = skipped.length > 0 ? `, ${skipped.length} tests skipped` : '';
  console.log(`${status === 0 ? 'ok    ' : `FAILED ${status}`} ${stage}: ${name} (${seconds} s${without})`);
  for (const title of skipped) console.log(`         skipped: ${title}`);
}
const set = Object.entries(results.otherwise ?? {}).map((pair) => pair.join('='));
if (set.length > 0)
  console.log(`the steps after the failure ran with ${set.join(' ')}; set it in later runs, too`);
process.exit(results.steps.every(({ status, isInformation }) => status === 0 || isInformation) ? 0 : 1);
