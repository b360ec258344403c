import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/**
 * Returns the script that trains a model of this name, which the package brings: `gpt`, `bert`. Undefined for
 * other names.
 */
export function trainingScript(name: string): string | undefined {
  if (name !== 'gpt' && name !== 'bert') return undefined;
  // by the name of the package, since builds are at several depths
  const script = fileURLToPath(new URL(`../bin/${name}-train.mjs`, import.meta.resolve('@mtl/cli')));
  return existsSync(script) ? script : undefined;
}
