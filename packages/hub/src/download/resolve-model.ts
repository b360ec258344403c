import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigurationError } from '@mtl/errors';
import { isJsonObject } from '@mtl/errors/files';
import {
  checkArgument,
  checkOptions,
  functionOption,
  type OptionChecks,
  objectOption,
  optionThat,
  textOption,
} from '@mtl/errors/options';
import { HubCache } from '../cache/hub-cache.js';
import { type HubEnvironment, hubSettings } from '../hub-settings.js';
import { type HubRepository, isCommit, parseRepository } from '../repository.js';
import { HubClient, type Patience } from '../requests/hub-client.js';
import { sizeText } from '../size-text.js';
import { cachedModel } from './cached-model.js';
import { downloadBlob, type HubFile } from './download-blob.js';
import { listWeightFiles, type ModelPart, neededFiles, weightsIndex } from './needed-files.js';
import { ProgressLines } from './progress-lines.js';
import { readRepositoryFiles } from './repository-files.js';
import type { ResolvedModel } from './resolved-model.js';

export interface ResolveModelOptions {
  /**
   * The part of the model to fetch. Default: `model`, which is all files that training and inference read.
   */
  readonly part?: ModelPart;
  /** The environment variables of Hugging Face's tools. Default: `process.env`. */
  readonly environment?: HubEnvironment;
  /** Called with a line that states what is fetched and its size, and then with progress lines. */
  readonly onMessage?: (text: string) => void;
  /** Ends the download when aborted. The next download continues after the bytes that were received. */
  readonly signal?: AbortSignal;
  /**
   * How many attempts a request has, and how long it waits between them. Default: 5 attempts, waits of up to
   * 300 s.
   */
  readonly patience?: Partial<Patience>;
}

const isModelPart = (value: unknown): value is ModelPart =>
  (isJsonObject(value) && typeof value.file === 'string') ||
  ['model', 'configuration', 'tokenizer', 'adapter'].includes(value as string);

const checks: OptionChecks<ResolveModelOptions> = {
  part: optionThat('model, configuration, tokenizer, adapter, or { file }', isModelPart),
  environment: objectOption('environment variables'),
  onMessage: functionOption,
  signal: optionThat('an AbortSignal', (value) => value instanceof AbortSignal),
  patience: objectOption('numbers of attempts and waits'),
};

/**
 * Returns the local directory of a model on the Hub. The function looks for the model in the cache that
 * Hugging Face's tools share, and fetches missing files. It fetches only files that are needed, and no
 * pickles. If a download was interrupted, the next call continues it. Sizes and hashes are checked.
 *
 * Without a connection, or if `HF_HUB_OFFLINE` is set, the model must be in the cache.
 *
 * @param model `org/name` or `org/name@revision`
 * @throws ConfigurationError MTL_HUB_NAME if `model` has a different form; MTL_HUB_NONE, MTL_HUB_REVISION,
 *   MTL_HUB_GATED, MTL_HUB_TOKEN, MTL_HUB_FORBIDDEN, MTL_HUB_OFFLINE, MTL_HUB_ENDPOINT, MTL_PROXY,
 *   MTL_OPTION;
 *   CheckpointError MTL_HUB_FILE, MTL_HUB_UNREACHABLE, MTL_HUB_ANSWER, MTL_HUB_RATE_LIMIT, MTL_HUB_HASH,
 *   MTL_HUB_DISK, MTL_HUB_CACHE
 */
export async function resolveModel(model: string, options: ResolveModelOptions = {}): Promise<ResolvedModel> {
  checkArgument(model, { name: 'model', check: textOption });
  checkOptions(options, { of: 'resolveModel', checks });
  const repository = parseRepository(model);
  if (repository === undefined) {
    throw new ConfigurationError('MTL_HUB_NAME', `${model} is not the name of a model on the Hub`, {
      expected: 'org/name, or org/name@revision',
    });
  }
  const { part = 'model', environment = process.env, onMessage = () => {} } = options;
  const settings = hubSettings(environment);
  const cache = new HubCache(settings.cacheDirectory, repository.name);
  const inCache = (commit: string | undefined): Promise<ResolvedModel | undefined> =>
    cachedModel({ cache, repository, part, commit });
  if (settings.isOffline) {
    const found = await inCache(await commitInCache(cache, repository));
    if (found === undefined) throw notInCache(repository, cache);
    return found;
  }
  const client = new HubClient({
    settings,
    environment,
    onMessage,
    signal: options.signal,
    patience: options.patience,
  });
  try {
    return await new Fetch({ client, cache, repository, part, onMessage }).run();
  } catch (error) {
    if ((error as { code?: string }).code !== 'MTL_HUB_UNREACHABLE') throw error;
    const found = await inCache(await commitInCache(cache, repository));
    if (found === undefined) throw error;
    onMessage(
      `${(error as Error).message}; using ${repository.name} at ${found.commit.slice(0, 8)}, which is in the cache`,
    );
    return found;
  }
}

const commitInCache = async (cache: HubCache, { revision }: HubRepository): Promise<string | undefined> =>
  isCommit(revision) ? revision : await cache.readRef(revision);

function notInCache({ name, revision }: HubRepository, { root }: HubCache): ConfigurationError {
  return new ConfigurationError(
    'MTL_HUB_OFFLINE',
    `${name} at ${revision} is not in the cache ${root}, or not all of it, and HF_HUB_OFFLINE forbids to fetch it`,
    {
      remedy: `unset HF_HUB_OFFLINE, or fetch it where there is a connection (hf download ${name}) and set HF_HOME to that cache`,
      details: { repository: name, revision },
    },
  );
}

interface FetchOptions {
  readonly client: HubClient;
  readonly cache: HubCache;
  readonly repository: HubRepository;
  readonly part: ModelPart;
  readonly onMessage: (text: string) => void;
}

/** Fetches the missing files of a model. */
class Fetch {
  readonly #options: FetchOptions;
  #fetchedBytes = 0;

  constructor(options: FetchOptions) {
    this.#options = options;
  }

  async run(): Promise<ResolvedModel> {
    const { client, cache, repository, part } = this.#options;
    const { name, revision } = repository;
    const { commit, files } = await readRepositoryFiles({ client, repository });
    const names = new Set(files.keys());
    const needed = neededFiles({ part, files: names, name });
    const listed = (file: string): HubFile => files.get(file)!;
    let all = needed.map(listed);
    if (needed.includes(weightsIndex)) {
      // the index is fetched first, because it names the needed weight files
      await this.#fetch(commit, [listed(weightsIndex)], { isAnnounced: false });
      const text = await readFile(join(cache.snapshotPath(commit), weightsIndex), 'utf8');
      all = [...all, ...listWeightFiles(text, { files: names, name }).map(listed)];
    }
    await this.#fetch(commit, all, { isAnnounced: true });
    // written last: if files were missing, a reference would nevertheless make the model look complete
    if (!isCommit(revision)) await cache.writeRef(revision, commit);
    return { directory: cache.snapshotPath(commit), name, commit, fetchedBytes: this.#fetchedBytes };
  }

  async #fetch(
    commit: string,
    files: readonly HubFile[],
    { isAnnounced }: { readonly isAnnounced: boolean },
  ): Promise<void> {
    const { client, cache, repository, onMessage } = this.#options;
    const { name } = repository;
    const missing = files.filter(({ file }) => !cache.has(commit, file));
    if (missing.length === 0) return;
    await cache.open();
    const absent = missing.filter(({ etag }) => !cache.hasBlob(etag));
    const total = absent.reduce((sum, { bytes }) => sum + bytes, 0);
    if (absent.length > 0) {
      await cache.checkSpace(total);
      if (isAnnounced)
        onMessage(
          `fetching ${name} at ${commit.slice(0, 8)} from ${client.host}: ${absent.length} ${absent.length === 1 ? 'file' : 'files'}, ` +
            `${sizeText(total)}, into ${cache.root}`,
        );
    }
    const progress = new ProgressLines({ total, onMessage });
    for (const each of missing) {
      if (!cache.hasBlob(each.etag)) {
        const onBytes = (added: number): void => progress.add(added);
        await downloadBlob({ ...each, client, cache, name, commit, onBytes });
        this.#fetchedBytes += each.bytes;
      }
      await cache.link(commit, each);
    }
  }
}
