#!/usr/bin/env node
/**
 * npm run bench: runs all benchmarks, or the named benchmarks, one after the other. Ends with status 1 if a
 * benchmark has failed.
 */
import { spawnSync } from 'node:child_process';
import { root, toolEnvironment } from '../bootstrap/bootstrap.mjs';
import { formatCommand, programs } from './programs.mjs';

const benchmarks = Object.entries(programs).filter(([, { inBench }]) => inBench === true);
const known = benchmarks.map(([name]) => name);
const asked = process.argv.slice(2);
const unknown = asked.filter((name) => !known.includes(name));
if (unknown.length > 0) {
  console.error(`error[MTL_FLAG_VALUE]: ${unknown.join(', ')}: no benchmark; there are ${known.join(', ')}`);
  process.exit(2);
}
for (const [name, program] of benchmarks) {
  if (asked.length > 0 && !asked.includes(name)) continue;
  console.log(`\n${name}`);
  const [command, ...args] = formatCommand(program).split(' ');
  const path = command === 'node' ? process.execPath : command;
  const { status } = spawnSync(path, args, { cwd: root, env: toolEnvironment(), stdio: 'inherit' });
  if (status === 0) continue;
  console.error(`error: ${name} ended with ${status}`);
  process.exitCode = 1;
}
