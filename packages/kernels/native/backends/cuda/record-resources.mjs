#!/usr/bin/env node
/**
 * Wraps nvcc in the build: runs it, and saves ptxas's report on each kernel (registers, shared memory,
 * spills) next to the object file, for check-resources.mjs.
 *   node record-resources.mjs nvcc ... -o OBJECT ...
 */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';

const [command, ...args] = process.argv.slice(2);
const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: 'utf8', maxBuffer: 1 << 28 });
if (error !== undefined) throw error;
const report = [...stdout.split('\n'), ...stderr.split('\n')];
const isResources = (line) => /^ptxas info|bytes stack frame|^\s+\d+ bytes/.test(line);
const rest = report.filter((line) => line.trim() !== '' && !isResources(line));
if (rest.length > 0) process.stderr.write(`${rest.join('\n')}\n`);
const object = args[args.indexOf('-o') + 1];
if (status === 0 && args.includes('-c')) {
  writeFileSync(`${object}.resources`, `${report.filter(isResources).join('\n')}\n`);
}
process.exit(status ?? 1);
