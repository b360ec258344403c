import { existsSync } from 'node:fs';
import { join } from 'node:path';

/** A commit of a model in the cache of Hugging Face's tools. */
const snapshot = /[\\/]models--[^\\/]+[\\/]snapshots[\\/][0-9a-f]{40}[\\/]?$/;

/**
 * Tells whether a directory is a model in the cache of Hugging Face's tools without its weights: dry runs and
 * plans fetch only its description. Loading its weights is an error as for every directory without weights.
 */
export function isConfigurationAlone(directory: string): boolean {
  if (!snapshot.test(directory)) return false;
  const names = ['model.safetensors', 'model.safetensors.index.json'];
  return !names.some((name) => existsSync(join(directory, name)));
}
