#!/usr/bin/env node
/**
 * Runs a guide in docs/guides as a test: writes the guide's files and runs its commands in an empty temporary
 * folder, with the builds of this checkout. Compares the output of each command with the output in the guide.
 * node tooling/guides/run-guide.mjs GUIDE.md ...
 * node tooling/guides/run-guide.mjs --show GUIDE.md ... prints all output and compares nothing
 */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, delimiter, dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { typeErrors } from '../packaging/type-errors.mjs';
import { outputDifference } from './compare-output.mjs';
import { GuideError, parseGuide } from './parse-guide.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '');
const defaultTimeoutMs = 300_000; // commands take seconds, but more if the machine is busy
const markName = 'MTL_GUIDE_RUN';

/**
 * Returns the environment for commands: the variables that the guides tell readers to set in their shell, and
 * `mark`, which identifies the started processes.
 */
const makeEnvironment = (mark) => ({
  ...process.env,
  MTL: root,
  PATH: `${join(root, 'node_modules', '.bin')}${delimiter}${process.env.PATH}`,
  NODE_OPTIONS: '',
  [markName]: mark,
});

/** Returns the processes that have `mark` in their environment and are not zombies. */
function markedProcesses(mark) {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0').includes(`${markName}=${mark}`);
      } catch {
        return false; // the process has ended, or belongs to another user
      }
    })
    .map(Number);
}

/**
 * Waits until no process has the mark, for at most `milliseconds`. Returns the processes that still have it.
 */
async function waitForEnd(mark, milliseconds) {
  const deadline = Date.now() + milliseconds;
  let left = markedProcesses(mark);
  while (left.length > 0 && Date.now() < deadline) {
    await sleep(50);
    left = markedProcesses(mark);
  }
  return left;
}

function kill(pid) {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {} // the process has ended meanwhile
}

/** Ends the processes that a command left running, and returns their number. */
async function endLeftovers(mark) {
  const left = await waitForEnd(mark, 2000); // processes that are about to end get two seconds
  for (const pid of left) kill(pid);
  await waitForEnd(mark, 10_000);
  return left.length;
}

/** Runs the content of one block with bash. Returns the exit status and the output. */
function runCommand({ command, folder, mark, timeoutMs }) {
  return new Promise((resolve, reject) => {
    const child = spawn('bash', ['-euo', 'pipefail', '-c', `exec 2>&1\n${command}`], {
      cwd: folder,
      env: makeEnvironment(mark),
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    let output = '';
    let timedOut = false;
    let afterExit;
    child.stdout.setEncoding('utf8').on('data', (chunk) => {
      output += chunk;
    });
    const timer = setTimeout(() => {
      timedOut = true;
      for (const pid of markedProcesses(mark)) kill(pid);
    }, timeoutMs);
    child.on('error', reject);
    // a process that is left running may keep the pipe open, so the pipe is closed here
    child.on('exit', () => {
      afterExit = setTimeout(() => child.stdout.destroy(), 2000);
    });
    child.on('close', (status) => {
      clearTimeout(timer);
      clearTimeout(afterExit);
      resolve({ status, output, timedOut });
    });
  });
}

/** Runs one command of a guide, and throws a GuideError if its result differs from the guide. */
async function runStep({ path, step, folder, timeoutMs, isCompared, onOutput }) {
  const mark = randomUUID();
  const started = Date.now();
  const { status, output, timedOut } = await runCommand({
    command: step.command,
    folder,
    mark,
    timeoutMs,
  });
  const left = await endLeftovers(mark);
  onOutput?.({ ...step, printed: output, seconds: (Date.now() - started) / 1000 });
  const fail = (line, message) => {
    throw new GuideError({ path, line, message: `${message}\n--- ${step.command}${output}` });
  };
  if (!isCompared) return;
  if (timedOut) fail(step.line, `the command took longer than ${timeoutMs / 1000} s`);
  if (status !== step.status) fail(step.line, `the command ended with ${status}, expected ${step.status}`);
  if (left > 0) fail(step.line, `the command left ${left} processes running`);
  if (step.output === undefined) return;
  const difference = outputDifference({ shown: step.output.text, printed: output });
  if (difference !== undefined) fail(step.output.line, difference);
}

/** Throws a GuideError if a TypeScript file that the guide shows has wrong types. */
function checkTypes({ path, steps, folder }) {
  const files = steps.filter(({ kind, name = '' }) => kind === 'file' && /\.m?ts$/.test(name));
  if (files.length === 0) return;
  const [error] = typeErrors(files.map(({ name }) => join(folder, name)));
  if (error === undefined) return;
  const { line } = files.find(({ name }) => error.startsWith(`${basename(name)},`)) ?? files[0];
  throw new GuideError({ path, line, message: error });
}

/**
 * Runs all blocks of the guide at `path` in order, in a temporary folder that is removed afterwards.
 * @throws GuideError for a block that is neither run nor marked, for a command whose exit status differs from
 *   the guide, that takes too long or that leaves a process running, for output that differs from the guide,
 *   and for TypeScript with wrong types
 */
export async function runGuide({ path, timeoutMs = defaultTimeoutMs, isCompared = true, onOutput }) {
  const steps = parseGuide({ path, text: readFileSync(path, 'utf8') });
  const folder = mkdtempSync(join(tmpdir(), `mtl-guide-${basename(path, '.md')}-`));
  try {
    for (const step of steps) {
      if (step.kind === 'command') await runStep({ path, step, folder, timeoutMs, isCompared, onOutput });
      if (step.kind !== 'file') continue;
      mkdirSync(dirname(join(folder, step.name)), { recursive: true });
      writeFileSync(join(folder, step.name), step.text);
    }
    if (isCompared) checkTypes({ path, steps, folder });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const isShown = process.argv.includes('--show');
  const show = ({ line, command, printed, seconds }) => {
    console.log(`--- line ${line}, ${seconds.toFixed(1)} s: ${command.split('\n')[0]}`);
    if (isShown) console.log(printed);
  };
  for (const path of process.argv.slice(2).filter((word) => !word.startsWith('--'))) {
    try {
      await runGuide({ path, isCompared: !isShown, onOutput: show });
      if (!isShown) console.log(`${path}: the output is what it shows`);
    } catch (error) {
      if (!(error instanceof GuideError)) throw error;
      console.error(error.message);
      process.exitCode = 1;
    }
  }
}
