import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = fileURLToPath(new URL('.', import.meta.url));
const mtl = join(here, '..', '..', '..', 'packages/cli/bin/mtl.mjs');

/** Runs train-step.mjs on `numProcesses` ranks. Returns the parsed JSON line that it prints. */
export function runStep({ name, numProcesses, flags }) {
  const result = spawnSync(
    process.execPath,
    [mtl, 'run', '--nproc-per-node', String(numProcesses), join(here, 'train-step.mjs'), '--', ...flags],
    { encoding: 'utf8' },
  );
  if (result.status !== 0) throw new Error(`${name}:\n${result.stdout}\n${result.stderr}`);
  return result.stdout
    .split('\n')
    .find((line) => line.includes('"program"'))
    .replace(/^\[\d+\] /, '');
}
