import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { ConfigurationError, MtlError } from '@mtl/errors';
import { isJsonObject } from '@mtl/errors/files';
import type { HubEnvironment } from '../hub-settings.js';
import { hubSettings } from '../hub-settings.js';
import { parseRepository } from '../repository.js';
import { HubClient, type Patience } from '../requests/hub-client.js';
import { refusedRequest } from '../requests/refused-request.js';
import { type PrivateWord, privateWordIn, privateWords } from './private-words.js';
import { type PushedFolder, pushedFolder } from './pushed-files.js';

export interface PreparePushOptions {
  /** A folder in the format of the transformers library or of PEFT, or a folder of GGUF files. */
  readonly directory: string;
  /** `org/name` */
  readonly name: string;
  /** True to create a public repository. Default: false, for a private repository. */
  readonly isPublic?: boolean;
  /** The environment variables of Hugging Face's tools. Default: `process.env`. */
  readonly environment?: HubEnvironment;
  readonly onMessage?: (text: string) => void;
  readonly patience?: Partial<Patience>;
}

/** An upload that has been checked but not started. */
export interface PreparedPush {
  readonly folder: PushedFolder;
  /** The address of the repository. */
  readonly url: string;
  /** The repository's visibility; undefined if the repository does not exist yet. */
  readonly existing: 'public' | 'private' | undefined;
  /**
   * Uploads the files and a model card in one commit. Large files that an interrupted upload has already sent
   * are not sent again.
   *
   * @param readme the contents of README.md, the model card
   * @returns the address of the commit
   * @throws ConfigurationError MTL_HUB_PRIVATE if the model card reveals something about this machine; the
   *   errors of a refused request
   */
  run(readme: string): Promise<string>;
}

/**
 * Checks an upload: the folder must contain a model and nothing private, and there must be an access token.
 * Also finds out if the repository exists. Nothing is changed before `run`.
 *
 * @throws ConfigurationError MTL_HUB_NAME, MTL_HUB_PUSH_FOLDER, MTL_HUB_PRIVATE, MTL_HUB_OFFLINE,
 *   MTL_HUB_PUBLIC if the repository is public but a private one was requested; MTL_HUB_TOKEN without a
 *   token; the request errors of `resolveModel`
 */
export async function preparePush(options: PreparePushOptions): Promise<PreparedPush> {
  const { directory, environment = process.env, isPublic = false, onMessage, patience } = options;
  const repository = parseRepository(options.name);
  if (repository === undefined || options.name.includes('@')) {
    throw new ConfigurationError(
      'MTL_HUB_NAME',
      `${options.name} is not the name of a repository on the Hub`,
      {
        expected: 'org/name, where org is your user name or an organization',
      },
    );
  }
  const { name } = repository;
  const settings = hubSettings(environment);
  if (settings.isOffline) {
    throw new ConfigurationError('MTL_HUB_OFFLINE', 'HF_HUB_OFFLINE forbids to upload', {
      remedy: 'unset HF_HUB_OFFLINE',
    });
  }
  const words = privateWords(environment, settings.token);
  const folder = await pushedFolder(directory, words);
  if (settings.token === undefined) {
    throw new ConfigurationError('MTL_HUB_TOKEN', 'uploading needs an access token', {
      expected: 'a token with the permission to write in HF_TOKEN, or from hf auth login',
      remedy: `make one at ${settings.endpoint}/settings/tokens`,
    });
  }
  const client = new HubClient({ settings, environment, onMessage, patience });
  const existing = await readVisibility(client, name);
  if (existing === 'public' && !isPublic) {
    throw new ConfigurationError('MTL_HUB_PUBLIC', `${name} exists, and everyone can read it`, {
      expected: 'a private repository without --public',
      remedy: 'pass --public, or choose another name',
    });
  }
  const upload = new Upload({ client, folder, name, existing, isPublic, words });
  const url = `${settings.endpoint}/${name}`;
  return { folder, url, existing, run: (readme) => upload.run(readme) };
}

/**
 * Returns a repository's visibility; undefined if the repository does not exist, or if the access token does
 * not give access to it.
 */
async function readVisibility(client: HubClient, name: string): Promise<'public' | 'private' | undefined> {
  const response = await client.send(`${client.settings.endpoint}/api/models/${name}`);
  if (response.ok) {
    const answer: unknown = await response.json().catch(() => undefined);
    return isJsonObject(answer) && answer.private === true ? 'private' : 'public';
  }
  const refusal = await refusedRequest({ client, response, name, revision: 'main', writes: false });
  if (refusal.code === 'MTL_HUB_NONE') return undefined;
  throw refusal;
}

interface UploadOptions {
  readonly client: HubClient;
  readonly folder: PushedFolder;
  readonly name: string;
  readonly existing: 'public' | 'private' | undefined;
  readonly isPublic: boolean;
  readonly words: readonly PrivateWord[];
}

/** An upload through the library @huggingface/hub. */
class Upload {
  readonly #options: UploadOptions;

  constructor(options: UploadOptions) {
    this.#options = options;
  }

  async run(readme: string): Promise<string> {
    const { client, folder, name, existing, isPublic, words } = this.#options;
    const what = privateWordIn(readme, words);
    if (what !== undefined) {
      throw new ConfigurationError('MTL_HUB_PRIVATE', `the model card contains ${what}`, {
        remedy:
          'write README.md in the folder yourself, which is uploaded in its place; nothing was uploaded',
      });
    }
    // the library (290 kB) is needed only for uploads
    const { commit, createRepo } = await import('@huggingface/hub');
    const repo = { type: 'model', name } as const;
    const hubUrl = client.settings.endpoint;
    const send = this.#send;
    if (existing === undefined) {
      const visibility = isPublic ? 'public' : 'private';
      // the token is empty here, because `send` adds it, and only to requests to the Hub's own address
      await createRepo({ repo, visibility, hubUrl, fetch: send, accessToken: '' }).catch((error: unknown) => {
        // status 409: the repository has been created in the meantime, and can be used
        if ((error as { statusCode?: number }).statusCode !== 409) throw error;
      });
    }
    const files = folder.files.map(({ file }) => ({
      operation: 'addOrUpdate' as const,
      path: file,
      content: pathToFileURL(join(folder.directory, file)),
    }));
    const operations = [
      ...files,
      { operation: 'addOrUpdate' as const, path: 'README.md', content: new Blob([readme]) },
    ];
    const title = 'Upload the model';
    try {
      // the upload uses Git LFS, which is documented, and not Xet, which requires a WebAssembly program
      const done = await commit({ repo, title, operations, hubUrl, fetch: send, useXet: false });
      return done?.commit.url ?? `${hubUrl}/${name}`;
    } catch (error) {
      throw MtlError.isInstance(error) ? error : client.unreachable(error, hubUrl);
    }
  }

  /** The `fetch` function that the library uses. It throws the user's error if the Hub refuses a request. */
  readonly #send = (async (input: string | URL, init: RequestInit = {}): Promise<Response> => {
    const { client, name } = this.#options;
    const response = await client.send(input, init);
    const isCreation = String(input).endsWith('/api/repos/create');
    if (response.ok || (isCreation && response.status === 409)) return response;
    throw await refusedRequest({ client, response, name, revision: 'main', writes: true });
  }) as typeof fetch;
}
