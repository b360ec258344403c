#!/usr/bin/env node
/**
 * Everything that wants a card, in one command: in a checkout that is built, and in a bundle (`run-on-gpu.sh`).
 *   node tooling/cuda/on-card.mjs tests|sanitizer|kernels|bench|all [--out DIRECTORY] [--emulation] [--only TEXT]
 *        [-- arguments for bench-cuda.mjs]
 * Writes STAGE.log of each stage and results.json (what ran, how it ended, seconds) to --out, the variable OUT, or ./results;
 * results.json after every step, so that a run that is cut off has what it had. Ends with 1 when a step failed.
 * --emulation takes the library compiled for the processor instead of a card, and a tiny model: it proves the command.
 * --only runs the tests whose names hold the text.
 */
import { spawn, spawnSync } from 'node:child_process';
import { copyFileSync, createWriteStream, existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { stagesOf } from './stages.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));
const stageNames = ['tests', 'sanitizer', 'kernels', 'bench'];
const usage = `usage: ${stageNames.join('|')}|all [--out DIRECTORY] [--emulation] [--only TEXT] [-- arguments of the bench]`;

function fail(message) {
  console.error(`error[MTL_ON_CARD]: ${message}\n  remedy: ${usage}`);
  process.exit(2);
}

/** compute-sanitizer: on PATH, or in a toolkit. */
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

/** Runs a step with its output on the terminal and in the log; its exit status. */
function runStep({ command, args, cwd }, log) {
  return new Promise((done) => {
    const child = spawn(command, args, { cwd });
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk) => {
        process.stdout.write(chunk);
        log.write(chunk);
      });
    }
    child.on('error', (error) => {
      log.write(`${error.message}\n`);
      done(127);
    });
    child.on('close', (status, signal) => done(status ?? signal));
  });
}

function readArguments() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        out: { type: 'string', default: process.env.OUT || 'results' },
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
const out = resolve(values.out);
mkdirSync(out, { recursive: true });

process.env.NO_COLOR = '1'; // what is printed is kept as a log
const kernels = join(root, 'packages/kernels');
if (values.emulation) {
  // under the name by which the real one is looked for
  const emulated = join(kernels, 'build/emulated');
  mkdirSync(emulated, { recursive: true });
  copyFileSync(join(kernels, 'build/Release/libcublaslt_emulated.so'), join(emulated, 'libcublasLt.so.13'));
  process.env.MTL_CUDA_LIBRARY = join(kernels, 'build/Release/libmtl_cuda_emulated.so');
  process.env.MTL_CUDA_LIBS = emulated;
} else {
  process.env.MTL_CUDA_LIBRARY ??= join(kernels, 'build/Cuda/libmtl_cuda.so');
}
/** The card and its libraries; where there is none, what openCuda said. */
function describeCard() {
  const script = join(kernels, 'bench/cuda/describe-card.mjs');
  const { status, stdout, stderr } = spawnSync(process.execPath, [script], { encoding: 'utf8' });
  return status === 0 ? JSON.parse(stdout) : { error: stderr.trim().split('\n').slice(-12).join('\n') };
}

const card = describeCard();
// Programs without JavaScript look for cuBLASLt by name alone, which does not find that of a Python environment.
if (card.cublasLtPath?.startsWith('/')) process.env.MTL_CUDA_LIBS ??= dirname(card.cublasLtPath);
const stages = stagesOf({
  ...{ root, out, benchArguments },
  emulation: values.emulation,
  only: values.only,
  sanitizer: values.emulation ? undefined : findSanitizer(),
});
const results = { date: new Date().toISOString(), emulation: values.emulation, card, steps: [] };
for (const stage of wanted === 'all' ? stageNames : [wanted]) {
  const log = createWriteStream(join(out, `${stage}.log`));
  for (const step of stages[stage]) {
    const title = `\n== ${stage}: ${step.name}\n`;
    process.stdout.write(title);
    log.write(title);
    const start = performance.now();
    const status = await runStep(step, log);
    const seconds = Number(((performance.now() - start) / 1000).toFixed(1));
    results.steps.push({
      stage,
      name: step.name,
      status,
      seconds,
      isInformation: step.isInformation ?? false,
    });
    writeFileSync(join(out, 'results.json'), `${JSON.stringify(results, null, 1)}\n`);
  }
  await new Promise((done) => log.end(done));
}
console.log(`\n${join(out, 'results.json')}`);
for (const { stage, name, status, seconds } of results.steps) {
  console.log(`${status === 0 ? 'ok    ' : `FAILED ${status}`} ${stage}: ${name} (${seconds} s)`);
}
process.exit(results.steps.every(({ status, isInformation }) => status === 0 || isInformation) ? 0 : 1);
