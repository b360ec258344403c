import { existsSync } from 'node:fs';
import { join } from 'node:path';

/** Matches the directory of a model's commit in the cache of Hugging Face's tools. */
const snapshot = /[\\/]models--[^\\/]+[\\/]snapshots[\\/][0-9a-f]{40}[\\/]?$/;

/**
 * Returns true if a directory in the cache of Hugging Face's tools lacks the model's weights. Dry runs and
 * plans download only its JSON files. Loading weights from it fails as for every directory without weights.
 */
export function isConfigurationAlone(directory: string): boolean {
  if (!snapshot.test(directory)) return false;
  const names = ['model.safetensors', 'model.safetensors.index.json'];
  return !names.some((name) => existsSync(join(directory, name)));
}
