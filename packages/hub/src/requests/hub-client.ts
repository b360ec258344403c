import { setTimeout as wait } from 'node:timers/promises';
import { CheckpointError } from '@mtl/errors';
import type { HubEnvironment, HubSettings } from '../hub-settings.js';
import { findReason } from './find-reason.js';
import { proxyNote, requestSender } from './proxies.js';

export interface HubClientOptions {
  readonly settings: HubSettings;
  /** The environment variables that name proxies. */
  readonly environment: HubEnvironment;
  /** Called with a line for each wait that the Hub requests. */
  readonly onMessage?: ((text: string) => void) | undefined;
  /** Ends requests and waits. */
  readonly signal?: AbortSignal | undefined;
  readonly patience?: Partial<Patience> | undefined;
}

/** How many attempts requests have, and how long they wait. */
export interface Patience {
  /** How often a request, or a download that makes no progress, is attempted at most. */
  readonly mostAttempts: number;
  /** The wait before the second attempt, in milliseconds. Every further attempt doubles the wait. */
  readonly firstWaitMs: number;
  /** The longest wait that the Hub may request, in seconds; a longer request is an error. */
  readonly longestWaitSeconds: number;
  /** After this number of milliseconds without a byte, a connection counts as broken. */
  readonly stallMs: number;
}

const defaultPatience: Patience = {
  mostAttempts: 5,
  firstWaitMs: 1000,
  longestWaitSeconds: 300,
  stallMs: 60_000,
};

/**
 * How many redirects a request follows at most. The Hub needs two: one to a renamed repository, and one to
 * the storage of a large file.
 */
const mostRedirects = 5;
/** The status codes that mean that a service is overloaded or restarting. */
const passing: readonly number[] = [429, 500, 502, 503, 504];

/**
 * Sends requests to the Hub. The access token is sent only to the origin of `HF_ENDPOINT`: this class follows
 * redirects itself, so that the storage to which they lead does not receive the token.
 */
export class HubClient {
  readonly settings: HubSettings;
  readonly patience: Patience;
  readonly #environment: HubEnvironment;
  readonly #onMessage: (text: string) => void;
  readonly #signal: AbortSignal | undefined;

  constructor({ settings, environment, onMessage, signal, patience }: HubClientOptions) {
    this.settings = settings;
    this.#environment = environment;
    this.patience = { ...defaultPatience, ...patience };
    this.#onMessage = onMessage ?? (() => {});
    this.#signal = signal;
  }

  /** The host of the Hub, for messages. */
  get host(): string {
    return new URL(this.settings.endpoint).host;
  }

  /**
   * Sends a request. A GET or HEAD is repeated if the Hub is overloaded or cannot be reached.
   *
   * @param init the same as for `fetch`, but a header `authorization` is replaced
   * @returns the answer, whose status may be an error and whose body has not been read
   * @throws CheckpointError MTL_HUB_UNREACHABLE if there is no answer; ConfigurationError MTL_PROXY
   */
  async send(url: string | URL, init: RequestInit = {}): Promise<Response> {
    // a request that changes something is not repeated, because the change could happen twice
    const isRepeatable = ['GET', 'HEAD'].includes((init.method ?? 'GET').toUpperCase());
    for (let attempt = 1; ; attempt++) {
      const isLast = attempt >= this.patience.mostAttempts;
      let response: Response;
      try {
        response = await this.#follow(new URL(url), init);
      } catch (error) {
        if (this.#signal?.aborted === true) throw error;
        if (!isRepeatable || isLast) throw this.unreachable(error, url);
        await this.pause(attempt);
        continue;
      }
      const isPassing = passing.includes(response.status) && (isRepeatable || response.status === 429);
      if (!isPassing || isLast) return response;
      const asked = askedSeconds(response.headers);
      if (asked !== undefined && asked > this.patience.longestWaitSeconds) return response;
      await response.body?.cancel();
      if (asked !== undefined) {
        this.#onMessage(`${this.host} asks to wait ${asked} s (HTTP ${response.status})`);
      }
      await this.pause(attempt, asked === undefined ? undefined : asked * 1000);
    }
  }

  /** Waits before the next attempt. By default, the wait doubles after each attempt. */
  async pause(attempt: number, milliseconds = this.patience.firstWaitMs * 2 ** (attempt - 1)): Promise<void> {
    await wait(milliseconds, undefined, this.#signal === undefined ? {} : { signal: this.#signal });
  }

  /** Makes the error for a request that has received no answer. */
  unreachable(error: unknown, url: string | URL): CheckpointError {
    const { host } = new URL(url);
    return new CheckpointError(
      'MTL_HUB_UNREACHABLE',
      `${host} cannot be reached: ${findReason(error)}${proxyNote(String(url), this.#environment)}`,
      {
        remedy:
          'check the connection, HTTPS_PROXY and HF_ENDPOINT and run the command again: it goes on where it stopped; ' +
          'without a connection fetch the model elsewhere and pass its directory',
        details: { host },
        cause: error,
      },
    );
  }

  /** Sends a request and follows its redirects. */
  async #follow(first: URL, init: RequestInit): Promise<Response> {
    const send = await requestSender(this.#environment);
    const { token, endpoint } = this.settings;
    const method = (init.method ?? 'GET').toUpperCase();
    let target = first;
    for (let numRedirects = 0; ; numRedirects++) {
      const headers = new Headers(init.headers);
      headers.delete('authorization');
      headers.set('user-agent', 'mtl-hub');
      if (token !== undefined && target.origin === new URL(endpoint).origin)
        headers.set('authorization', `Bearer ${token}`);
      const signal = joinSignals(init.signal, this.#signal);
      const response = await send(target, {
        ...init,
        headers,
        redirect: 'manual',
        ...(signal === undefined ? {} : { signal }),
      });
      const location = response.headers.get('location');
      // requests other than GET and HEAD follow only redirects 307 and 308, because 301 to 303 would drop the
      // request's body
      const isFollowed = method === 'GET' || method === 'HEAD' || [307, 308].includes(response.status);
      if (response.status < 300 || response.status >= 400 || location === null || !isFollowed)
        return response;
      await response.body?.cancel();
      if (numRedirects === mostRedirects) throw new Error(`more than ${mostRedirects} redirects`);
      target = new URL(location, target);
    }
  }
}

function joinSignals(...signals: readonly (AbortSignal | null | undefined)[]): AbortSignal | undefined {
  const given = signals.filter((signal) => signal != null);
  return given.length === 0 ? undefined : AbortSignal.any(given);
}

/**
 * Returns how many seconds an answer asks the client to wait; undefined if it does not ask for a wait. The
 * header is `Retry-After`, in seconds or as a date, or `RateLimit` if a limit is exhausted (`"api";r=0;t=55`,
 * see https://www.ietf.org/archive/id/draft-ietf-httpapi-ratelimit-headers-09.html).
 */
export function askedSeconds(headers: Pick<Headers, 'get'>): number | undefined {
  const after = headers.get('retry-after')?.trim();
  if (after !== undefined && after !== '') {
    if (/^\d+$/.test(after)) return Number(after);
    const until = Date.parse(after);
    if (!Number.isNaN(until)) return Math.max(0, Math.ceil((until - Date.now()) / 1000));
  }
  const [, remaining, reset] =
    /;\s*r\s*=\s*(\d+)\s*;\s*t\s*=\s*(\d+)/.exec(headers.get('ratelimit') ?? '') ?? [];
  return remaining !== undefined && Number(remaining) === 0 ? Number(reset) : undefined;
}
