import { spawnSync } from 'node:child_process';

const loader = new URL('../vitest/typescript-loader.mjs', import.meta.url).href;

/**
 * Runs a TypeScript program of the checkout with the sources of all packages, so that no build is needed.
 * Returns its exit status.
 */
export function runSources(program, args) {
  const options = ['--conditions=@mtl/source', '--import', loader];
  const { status, error } = spawnSync(process.execPath, [...options, program, ...args], { stdio: 'inherit' });
  if (error !== undefined) throw error;
  return status ?? 1;
}
