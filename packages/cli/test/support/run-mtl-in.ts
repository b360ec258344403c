import { vi } from 'vitest';
import { runMtlHere } from './run-mtl-here.js';
import type { FinishedMtl } from './spawn-mtl.js';

/**
 * Runs a command line in this process; `spawnMtl` uses a new process, which takes half a second longer. Calls
 * must run one after the other, since they change the directory and the environment of this process.
 */
export async function runMtlIn(
  argv: readonly string[],
  { cwd, env = {} }: { readonly cwd: string; readonly env?: Readonly<Record<string, string>> },
): Promise<FinishedMtl> {
  const before = process.cwd();
  process.chdir(cwd);
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  try {
    const { status, stdout, stderr } = await runMtlHere(...argv);
    return { status, stdout, stderr };
  } finally {
    vi.unstubAllEnvs();
    process.chdir(before);
  }
}
