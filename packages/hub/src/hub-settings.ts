import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { ConfigurationError } from '@mtl/errors';

/** Environment variables, for example `process.env`. */
export type HubEnvironment = Readonly<Record<string, string | undefined>>;

/** The settings of Hugging Face's tools. */
export interface HubSettings {
  /** The Hub's address, without a slash at its end. */
  readonly endpoint: string;
  /** The access token; undefined without one. */
  readonly token: string | undefined;
  /** Where the token comes from, for messages: `HF_TOKEN`, or a file. */
  readonly tokenSource: string;
  /** The cache folder, which contains a folder `models--ORG--NAME` for each model. */
  readonly cacheDirectory: string;
  /** True if no request may be sent. */
  readonly isOffline: boolean;
}

/**
 * Reads the settings from the environment variables of Hugging Face's tools, with the same meaning:
 * `HF_ENDPOINT`; `HF_TOKEN`, `HF_TOKEN_PATH` and `HF_HUB_DISABLE_IMPLICIT_TOKEN`; `HF_HUB_CACHE`,
 * `HUGGINGFACE_HUB_CACHE`, `HF_HOME` and `XDG_CACHE_HOME`; `HF_HUB_OFFLINE` and `TRANSFORMERS_OFFLINE`.
 *
 * https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables
 *
 * @throws ConfigurationError MTL_HUB_ENDPOINT
 */
export function hubSettings(environment: HubEnvironment = process.env): HubSettings {
  const value = (name: string): string | undefined => environment[name]?.trim() || undefined;
  const folder = (name: string): string | undefined => {
    const path = value(name);
    return path === undefined ? undefined : expanded(path, environment);
  };
  const home = value('HOME') ?? homedir();
  const ofTools = folder('HF_HOME') ?? join(folder('XDG_CACHE_HOME') ?? join(home, '.cache'), 'huggingface');
  return {
    endpoint: checkEndpoint(value('HF_ENDPOINT')),
    ...readToken(environment, folder('HF_TOKEN_PATH') ?? join(ofTools, 'token')),
    cacheDirectory: folder('HF_HUB_CACHE') ?? folder('HUGGINGFACE_HUB_CACHE') ?? join(ofTools, 'hub'),
    isOffline: isTrue(value('HF_HUB_OFFLINE') ?? value('TRANSFORMERS_OFFLINE')),
  };
}

/** Expands `~` and variables in a path, as Hugging Face's tools do. */
function expanded(path: string, environment: HubEnvironment): string {
  const home = environment.HOME ?? homedir();
  return path
    .replace(/^~(?=\/|$)/, home)
    .replace(
      /\$(?:\{(\w+)\}|(\w+))/g,
      (written, braced: string | undefined, plain: string | undefined) =>
        environment[braced ?? plain ?? ''] ?? written,
    );
}

const isTrue = (value: string | undefined): boolean =>
  value !== undefined && ['1', 'ON', 'YES', 'TRUE'].includes(value.toUpperCase());

function checkEndpoint(given = 'https://huggingface.co'): string {
  const isUsable = URL.canParse(given) && /^https?:$/.test(new URL(given).protocol);
  // an address with a user and password is rejected, because messages would show the password
  if (isUsable && new URL(given).username === '') return given.replace(/\/+$/, '');
  throw new ConfigurationError('MTL_HUB_ENDPOINT', 'HF_ENDPOINT is not the address of a Hub', {
    expected: 'https://HOST or http://HOST:PORT, without a user',
    remedy: 'correct HF_ENDPOINT, or unset it to use https://huggingface.co',
  });
}

function readToken(environment: HubEnvironment, path: string): Pick<HubSettings, 'token' | 'tokenSource'> {
  const variable = ['HF_TOKEN', 'HUGGING_FACE_HUB_TOKEN'].find(
    (name) => (environment[name] ?? '').trim() !== '',
  );
  if (variable !== undefined) return { token: cleaned(environment[variable]!), tokenSource: variable };
  const none = { token: undefined, tokenSource: 'HF_TOKEN' };
  if (isTrue(environment.HF_HUB_DISABLE_IMPLICIT_TOKEN)) return none;
  try {
    const token = cleaned(readFileSync(path, 'utf8'));
    return token === '' ? none : { token, tokenSource: path };
  } catch {
    return none; // the file does not exist if the user has not logged in
  }
}

/** Removes the line break at the end of a token file, because a header must not contain a line break. */
const cleaned = (token: string): string => token.replaceAll(/[\r\n]/g, '').trim();
