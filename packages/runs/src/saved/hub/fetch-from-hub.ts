import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { broadcastJson, type ProcessGroup } from '@mtl/comm';
import { ConfigurationError } from '@mtl/errors';
import { type ModelPart, parseGgufFile, parseRepository, resolveModel } from '@mtl/hub';
import { waitTogether } from '../../parts/ranks/wait-together.js';

/** Options that specify models. Each value is the path of a directory, or the name of a model on the Hub. */
export interface ModelPlaces {
  /** The value of --load-hf. */
  readonly loadHuggingFace?: string | undefined;
  /** The value of --load-lora. */
  readonly loadLora?: string | undefined;
  /** The value of --tokenizer-model. */
  readonly tokenizerModel?: string | undefined;
}

export interface FetchFromHubOptions {
  /**
   * The group of the processes that need the models; undefined for a single process. The first process
   * downloads.
   */
  readonly group?: ProcessGroup | undefined;
  /**
   * If `configuration`, downloads all files except weights, for dry runs and plans. Default: all files that a
   * run reads.
   */
  readonly needs?: 'all' | 'configuration';
  /** Called on the first process with a message about each download. */
  readonly onMessage: (text: string) => void;
}

const parts: Readonly<Record<keyof ModelPlaces, ModelPart>> = {
  loadHuggingFace: 'model',
  loadLora: 'adapter',
  tokenizerModel: 'tokenizer',
};

/**
 * Returns the options with each name of a model on the Hub (`org/name` or `org/name@revision`) replaced by
 * the model's directory in the cache. Files that are missing in the cache are downloaded. An existing path is
 * not changed, even if it looks like a name. All processes of the group must call this function, and only the
 * first downloads.
 *
 * @throws the errors of `resolveModel` in @mtl/hub; ConfigurationError MTL_HUB_OTHER_HOST on a host that does
 * not
 *   share the cache of the first process
 */
export async function fetchFromHub<Places extends ModelPlaces>(
  places: Places,
  options: FetchFromHubOptions,
): Promise<Places> {
  const { group } = options;
  // the decision depends only on the string, because all processes must decide in the same way, and a path
  // may exist on only some hosts
  const named = Object.keys(parts).flatMap((key) => {
    const name = key as keyof ModelPlaces;
    const value = places[name];
    return value !== undefined && parseRepository(value) !== undefined ? [{ name, value }] : [];
  });
  if (named.length === 0) return places;
  const own = await waitTogether(group, async () => {
    if (group !== undefined && group.rank !== 0) return {};
    const fetched = new Map<string, string>();
    for (const each of named) fetched.set(each.name, await chooseDirectory(each, options));
    return Object.fromEntries(fetched);
  });
  const found: Readonly<Record<string, string>> = group === undefined ? own : broadcastJson(group, own);
  for (const { name, value } of named) refuseOtherHost(found[name]!, value);
  return { ...places, ...found };
}

async function chooseDirectory(
  { name, value }: { readonly name: keyof ModelPlaces; readonly value: string },
  { needs = 'all', onMessage }: FetchFromHubOptions,
): Promise<string> {
  if (existsSync(value)) return value;
  const part = needs === 'configuration' && parts[name] === 'model' ? 'configuration' : parts[name];
  return (await resolveModel(value, { part, onMessage })).directory;
}

/**
 * Returns the path of a GGUF file. A path that exists, or that is not a name on the Hub, is returned
 * unchanged. For `org/name/file.gguf` or `org/name/file.gguf@revision`, the result is the path of the
 * downloaded file in the cache.
 *
 * @throws the errors of `resolveModel` in @mtl/hub
 */
export async function fetchGgufFromHub(
  path: string,
  { onMessage }: Pick<FetchFromHubOptions, 'onMessage'>,
): Promise<string> {
  const named = existsSync(path) ? undefined : parseGgufFile(path);
  if (named === undefined) return path;
  const { model, file } = named;
  return join((await resolveModel(model, { part: { file }, onMessage })).directory, file);
}

/**
 * Rejects a directory that exists on the first process's host, but not on this host.
 *
 * @param value the path or the model name that the user gave
 */
export function refuseOtherHost(directory: string, value: string): void {
  if (directory === value || existsSync(directory)) return;
  throw new ConfigurationError(
    'MTL_HUB_OTHER_HOST',
    `this host has no ${directory}, where rank 0 has ${value}`,
    {
      expected: 'a cache that all hosts share',
      remedy:
        'set HF_HOME to a folder on storage that all hosts share, or fetch the model into the same folder of each host ' +
        `(hf download ${value.split('@')[0]})`,
      details: { directory, model: value },
    },
  );
}
