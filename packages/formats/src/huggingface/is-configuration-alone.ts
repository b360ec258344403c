import { existsSync } from 'node:fs';
import { join } from 'node:path';

/** Matches the directory of a commit of a model in the cache of Hugging Face's tools. */
const snapshot = /[\\/]models--[^\\/]+[\\/]snapshots[\\/][0-9a-f]{40}[\\/]?$/;

/**
 * Returns true if a directory in the cache of Hugging Face's tools contains no weights, because a dry run or
 * a plan has downloaded only the JSON files. Loading weights from such a directory fails, as it does for
 * every directory without weights.
 */
export function isConfigurationAlone(directory: string): boolean {
  if (!snapshot.test(directory)) return false;
  const names = ['model.safetensors', 'model.safetensors.index.json'];
  return !names.some((name) => existsSync(join(directory, name)));
}
