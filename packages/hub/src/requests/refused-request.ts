import { CheckpointError, ConfigurationError, type MtlError } from '@mtl/errors';
import { shown } from './find-reason.js';
import { askedSeconds, type HubClient } from './hub-client.js';

interface RefusedRequest {
  readonly client: HubClient;
  readonly response: Response;
  /** `org/name` */
  readonly name: string;
  readonly revision: string;
  /** The file that was requested, if any. */
  readonly file?: string;
  /** True if the request changes the repository. */
  readonly writes?: boolean;
}

/**
 * Returns the error for an answer that does not report success. As in huggingface_hub (see
 * `hf_raise_for_status`), the error depends on the header `X-Error-Code` and on the status.
 */
export async function refusedRequest(refused: RefusedRequest): Promise<MtlError> {
  const { response, client, name } = refused;
  const { status, headers } = response;
  const said = await saidBy(refused);
  const details = { status, repository: name };
  const code = headers.get('x-error-code');
  const isTokenRefused = /invalid (?:credentials|username or password|user token)/i.test(said);
  if (isTokenRefused && client.settings.token !== undefined) return refusedToken(refused);
  if (code === 'GatedRepo') return gated(refused);
  if (code === 'RevisionNotFound') {
    const { revision } = refused;
    return new ConfigurationError('MTL_HUB_REVISION', `${name} has no revision ${revision}`, {
      expected: 'a branch, a tag or a commit of the repository',
      remedy: `look at ${client.settings.endpoint}/${name}/commits, or leave @${revision} out to use main`,
      details,
    });
  }
  if (code === 'EntryNotFound') {
    return new CheckpointError('MTL_HUB_FILE', `${name} has no file ${refused.file ?? ''}`.trim(), {
      remedy: `look at ${client.settings.endpoint}/${name}/tree/${refused.revision}`,
      exitCode: 2,
      details,
    });
  }
  if (status === 429) return limited(refused);
  if (refused.writes === true && (status === 401 || status === 403)) return unwritable(refused);
  if (code === 'RepoNotFound' || status === 401 || status === 404) return unknown(refused);
  if (status === 403) {
    return new ConfigurationError('MTL_HUB_FORBIDDEN', `${client.host} forbids to read ${name}: ${said}`, {
      remedy: tokenRemedy(client, 'with the permission to read this repository'),
      details,
    });
  }
  const answer = said === '' ? '' : `: ${said}`;
  return new CheckpointError('MTL_HUB_ANSWER', `${client.host} answers HTTP ${status} for ${name}${answer}`, {
    remedy:
      'run the command again later: it goes on where it stopped; status.huggingface.co tells of outages',
    details,
  });
}

/** Returns the message that the server sent; empty if the answer is an HTML page. */
async function saidBy({ response, client }: RefusedRequest): Promise<string> {
  const { token } = client.settings;
  const inHeader = response.headers.get('x-error-message');
  const body = await response.text().catch(() => '');
  const isPage = /html/i.test(response.headers.get('content-type') ?? '');
  const text = inHeader ?? errorIn(body) ?? (isPage ? '' : body);
  // the token is removed, so that a server cannot put it into a log
  return shown(token === undefined ? text : text.replaceAll(token, '***'));
}

function errorIn(body: string): string | undefined {
  try {
    const { error, message } = JSON.parse(body) as { error?: unknown; message?: unknown };
    return [error, message].find((text) => typeof text === 'string') as string | undefined;
  } catch {
    return undefined;
  }
}

function refusedToken({ client, name }: RefusedRequest): MtlError {
  const { tokenSource } = client.settings;
  return new ConfigurationError(
    'MTL_HUB_TOKEN',
    `${client.host} does not accept the token of ${tokenSource}`,
    {
      expected: 'a token that has not expired',
      remedy: `make a token at ${client.settings.endpoint}/settings/tokens and set HF_TOKEN; models that are public need none`,
      details: { repository: name },
    },
  );
}

function gated({ client, name }: RefusedRequest): MtlError {
  const { endpoint, token, tokenSource } = client.settings;
  const account = token === undefined ? '' : ` with the account of ${tokenSource}`;
  return new ConfigurationError(
    'MTL_HUB_GATED',
    `${name} is gated: ${client.host} gives it only to accounts that its authors have let in`,
    {
      remedy:
        `accept its terms at ${endpoint}/${name}${account}` +
        (token === undefined
          ? `, make a token at ${endpoint}/settings/tokens and set HF_TOKEN`
          : ', then run the command again'),
      details: { repository: name },
    },
  );
}

function unknown({ client, name }: RefusedRequest): MtlError {
  const { endpoint, token, tokenSource } = client.settings;
  return new ConfigurationError('MTL_HUB_NONE', `${client.host} has no model ${name}, or it is private`, {
    expected: 'a path on this machine, or the org/name of a model',
    remedy:
      token === undefined
        ? `check the name at ${endpoint}; for a private model set HF_TOKEN`
        : `check the name at ${endpoint}; for a private model the account of ${tokenSource} needs access to it`,
    details: { repository: name },
  });
}

function limited({ client, response, name }: RefusedRequest): MtlError {
  const { token } = client.settings;
  const seconds = askedSeconds(response.headers);
  return new CheckpointError('MTL_HUB_RATE_LIMIT', `${client.host} has had too many requests (HTTP 429)`, {
    remedy:
      (seconds === undefined ? 'wait some minutes' : `wait ${seconds} s`) +
      ' and run the command again: it goes on where it stopped' +
      (token === undefined ? '; with HF_TOKEN the limit is higher' : ''),
    details: { repository: name, ...(seconds === undefined ? {} : { retryAfterSeconds: seconds }) },
  });
}

function unwritable({ client, name }: RefusedRequest): MtlError {
  return new ConfigurationError(
    'MTL_HUB_FORBIDDEN',
    `${client.host} does not let this token write to ${name}`,
    {
      remedy: tokenRemedy(
        client,
        'with the permission to write, of an account that owns the name before the slash',
      ),
      details: { repository: name },
    },
  );
}

const tokenRemedy = ({ settings }: HubClient, permission: string): string =>
  `set HF_TOKEN to a token ${permission}: ${settings.endpoint}/settings/tokens`;
