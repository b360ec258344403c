#!/usr/bin/env node
/**
 * Runs the native test programs of the package in the working directory, one after the other, and stops after
 * the first program that fails. Lines that begin with SKIPPED or FAIL, and programs that fail, are recorded
 * for `npm test`, which counts them together with vitest's tests.
 *   node run-native-tests.mjs [--shares N] PROGRAM...    runs each program in N processes with 1/N of its
 *   tests each,
 *                                                        at most one process per processor at a time
 *   node run-native-tests.mjs --only NAME[,NAME...] PROGRAM...   runs the tests whose names contain one of
 *   the NAMEs
 */
import { spawn } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { basename, relative } from 'node:path';
import { createInterface } from 'node:readline';
import { atMostAtOnce } from '../processes/at-most-at-once.mjs';
import { reportFailure, reportSkip } from '../processes/report-outcome.mjs';

function runProgram(program, args) {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const name = relative('build', program);
  createInterface({ input: child.stdout }).on('line', (line) => {
    console.log(line);
    if (line.startsWith('SKIPPED ')) reportSkip(`${basename(program)}: ${line.slice('SKIPPED '.length)}`);
    if (line.startsWith('FAIL ')) reportFailure(`${name}: ${line.slice('FAIL '.length)}`);
  });
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (status, signal) => {
      if (status !== 0) reportFailure(`${name} ended with ${signal ?? `status ${status}`}`);
      resolve(status ?? 1);
    });
  });
}

const programs = process.argv.slice(2);
const only = programs[0] === '--only' ? programs.splice(0, 2)[1].split(',') : [];
const numShares = programs[0] === '--shares' ? Number(programs.splice(0, 2)[1]) : 1;
const shares = Array.from({ length: numShares }, (_, share) =>
  numShares === 1 ? only : ['--share', String(share), String(numShares)],
);
for (const program of programs) {
  const runs = atMostAtOnce({ limit: availableParallelism(), items: shares }, (args) =>
    runProgram(program, args),
  );
  const statuses = await Promise.all(runs);
  const failed = statuses.find((status) => status !== 0);
  if (failed !== undefined) process.exit(failed);
}
