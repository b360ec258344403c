import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Returns the path of this package's training script for `gpt` or `bert`; undefined for other names. */
export function trainingScript(name: string): string | undefined {
  if (name !== 'gpt' && name !== 'bert') return undefined;
  // the script is resolved by package name, because builds are in directories of different depth
  const script = fileURLToPath(new URL(`../bin/${name}-train.mjs`, import.meta.resolve('@mtl/cli')));
  return existsSync(script) ? script : undefined;
}
