import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { HubCache } from '../cache/hub-cache.js';
import type { HubRepository } from '../repository.js';
import { listWeightFiles, type ModelPart, neededFiles, weightsIndex } from './needed-files.js';
import type { ResolvedModel } from './resolved-model.js';

/**
 * Returns a model from the cache without a request to the Hub. Returns undefined unless the cache has all
 * files that `part` needs. Optional files, such as generation_config.json, are not required, because the
 * cache does not show whether the repository has them.
 */
export async function cachedModel(options: {
  readonly cache: HubCache;
  readonly repository: HubRepository;
  readonly part: ModelPart;
  readonly commit: string | undefined;
}): Promise<ResolvedModel | undefined> {
  const { cache, repository, part, commit } = options;
  if (commit === undefined) return undefined;
  const directory = cache.snapshotPath(commit);
  const { name } = repository;
  // a link does not count if its contents have been deleted
  const files = new Set((await filesIn(directory)).filter((file) => cache.has(commit, file)));
  try {
    const needed = neededFiles({ part, files, name });
    if (needed.includes(weightsIndex)) {
      const text = await readFile(join(directory, weightsIndex), 'utf8');
      listWeightFiles(text, { files, name });
    }
    // a tokenizer may consist of a single optional file, which is missing if a different tool has fetched the
    // model without it
    const hasTokenizer = part !== 'tokenizer' || files.has('tokenizer.json') || files.has('vocab.txt');
    return hasTokenizer ? { directory, name, commit, fetchedBytes: 0 } : undefined;
  } catch {
    return undefined;
  }
}

async function filesIn(directory: string): Promise<readonly string[]> {
  try {
    const entries = await readdir(directory, { recursive: true });
    return entries.map((path) => path.replaceAll('\\', '/'));
  } catch {
    return [];
  }
}
