#!/usr/bin/env node
/**
 * Runs a command. Prints the progress of the native builds that the command starts to descriptor 3: on a
 * terminal in a single line, otherwise in a new line for each quarter. The output of the command itself is
 * unchanged.
 * node tooling/bootstrap/show-progress.mjs COMMAND [ARGUMENT ...] 3>&1
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isatty } from 'node:tty';
import { fileURLToPath } from 'node:url';

const progressDescriptor = 3;

/**
 * Returns the finished share, from 0 to 1, of the slowest native build. Each build has a progress file in
 * `folder`.
 */
function shareDone(folder) {
  const shares = readdirSync(folder).map((name) => Number(readFileSync(join(folder, name), 'utf8')) || 0);
  return shares.length === 0 ? 0 : Math.min(...shares); // the slowest build decides when all builds are done
}

/**
 * Returns the text to print for the finished share, from 0 to 1; undefined if it is hardly larger than the
 * share that was printed last.
 */
export function progressText({ share, shown, isTerminal, seconds }) {
  const percent = Math.floor(100 * share);
  const step = isTerminal ? 1 : 25;
  if (percent < shown + step) return undefined;
  return `${isTerminal ? '\r' : ''}compiling: ${percent} % after ${seconds.toFixed(0)} s${isTerminal ? '' : '\n'}`;
}

function runWithProgress([command, ...args]) {
  const folder = mkdtempSync(join(tmpdir(), 'mtl-progress-'));
  const isTerminal = isatty(progressDescriptor);
  const started = Date.now();
  let shown = 0;
  const show = () => {
    const share = shareDone(folder);
    const text = progressText({ share, shown, isTerminal, seconds: (Date.now() - started) / 1000 });
    if (text === undefined) return;
    writeSync(progressDescriptor, text);
    shown = Math.floor(100 * share);
  };
  const timer = setInterval(show, 500);
  const child = spawn(command, args, {
    stdio: ['ignore', 'inherit', 'inherit'],
    env: { ...process.env, MTL_BUILD_PROGRESS: folder },
  });
  const end = (status) => {
    clearInterval(timer);
    if (isTerminal && shown > 0) writeSync(progressDescriptor, '\r\x1b[K');
    rmSync(folder, { recursive: true, force: true });
    process.exit(status);
  };
  child.on('error', (error) => {
    console.error(error.message);
    end(1);
  });
  child.on('exit', (code) => end(code ?? 1));
  // a signal ends only the command; afterwards, this program removes the folder
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) runWithProgress(process.argv.slice(2));
