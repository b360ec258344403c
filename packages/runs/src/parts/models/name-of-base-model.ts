import { repositoryOfSnapshot } from '@mtl/hub';

/**
 * Returns the name of the base model that adapters store. It is the name on the Hub if the directory is in
 * the Hub's cache, so that other machines can find the model. Otherwise it is the directory.
 */
export function nameOfBaseModel(loadHuggingFace: string | undefined): string | undefined {
  if (loadHuggingFace === undefined) return undefined;
  return repositoryOfSnapshot(loadHuggingFace)?.name ?? loadHuggingFace;
}
