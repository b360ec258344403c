import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/**
 * Returns the script that trains a model of this name, which the package brings: `gpt`, `bert`. Undefined for
 * other names. This file stays directly in `src`: its build is directly in `dist`, at the same distance from
 * `bin`.
 */
export function trainingScript(name: string): string | undefined {
  if (name !== 'gpt' && name !== 'bert') return undefined;
  const script = fileURLToPath(new URL(`../bin/${name}-train.mjs`, import.meta.url));
  return existsSync(script) ? script : undefined;
}
