import { spawnSync } from 'node:child_process';

/**
 * Runs a command to its end and returns its standard output. If the command fails, prints its output and
 * throws an error.
 */
export function runStep(command, args, { cwd, env = {}, input } = {}) {
  const { status, signal, stdout, stderr, error } = spawnSync(command, args, {
    cwd,
    input,
    encoding: 'utf8',
    maxBuffer: 1 << 28,
    env: { ...process.env, NODE_OPTIONS: '', ...env },
  });
  if (status === 0) return stdout;
  const output = `${stdout ?? ''}${stderr ?? ''}`.split('\n').slice(-60).join('\n');
  throw new Error(
    `${[command, ...args].join(' ')} ended with ${error?.message ?? status ?? signal}\n${output}`,
  );
}
