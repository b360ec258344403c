#!/usr/bin/env node
/**
 * Runs native test programs of the package in the working directory, one after the other, up to the first that fails. A line
 * that begins with SKIPPED is noted for `npm test`, which counts it with the skipped tests of vitest.
 *   node run-native-tests.mjs PROGRAM...
 */
import { spawn } from 'node:child_process';
import { basename } from 'node:path';
import { createInterface } from 'node:readline';
import { reportSkip } from '../processes/report-skip.mjs';

function runProgram(program) {
  const child = spawn(program, { stdio: ['ignore', 'pipe', 'inherit'] });
  createInterface({ input: child.stdout }).on('line', (line) => {
    console.log(line);
    if (line.startsWith('SKIPPED ')) reportSkip(`${basename(program)}: ${line.slice('SKIPPED '.length)}`);
  });
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (status) => resolve(status ?? 1));
  });
}

for (const program of process.argv.slice(2)) {
  const status = await runProgram(program);
  if (status !== 0) process.exit(status);
}
