import { repositoryOfSnapshot } from '@mtl/hub';

/**
 * Returns the name of the base model, which is stored with adapters. If the directory is in the Hub's cache,
 * returns the model's name on the Hub, so that other machines can find the model. Otherwise returns the
 * directory.
 */
export function nameOfBaseModel(loadHuggingFace: string | undefined): string | undefined {
  if (loadHuggingFace === undefined) return undefined;
  return repositoryOfSnapshot(loadHuggingFace)?.name ?? loadHuggingFace;
}
