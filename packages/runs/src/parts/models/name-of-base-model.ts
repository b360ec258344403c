import { repositoryOfSnapshot } from '@mtl/hub';

/**
 * Returns how adapters name the model that they adapt: by its name on the Hub where its directory is in the
 * cache, so that other machines find it, else by its directory.
 */
export function nameOfBaseModel(loadHuggingFace: string | undefined): string | undefined {
  if (loadHuggingFace === undefined) return undefined;
  return repositoryOfSnapshot(loadHuggingFace)?.name ?? loadHuggingFace;
}
