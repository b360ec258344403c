import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { hostname } from 'node:os';
import { HttpProblem } from './respond.js';

const loopbackNames = ['localhost', '127.0.0.1', '::1'];

/** Returns true if an address can be reached only from this machine. */
export const isLoopback = (host: string): boolean => loopbackNames.includes(host);

/**
 * Decides which requests are answered. If the server listens on loopback, it answers requests of all users of
 * this machine. If it listens on a different address, it answers only requests with the token, which is the
 * first part of every path.
 *
 * A page of another site may make its name resolve to this machine (DNS rebinding). Such requests are
 * detected by the Host header, which must name this machine by an address or one of its known names. Ports
 * are not compared, so that a tunnel may use a different port.
 */
export class Access {
  /** The token at the beginning of all paths; undefined on loopback. */
  readonly token: string | undefined;
  readonly #host: string;

  constructor(host: string) {
    this.#host = host;
    this.token = isLoopback(host) ? undefined : randomBytes(24).toString('base64url');
  }

  /** The prefix of all paths: `/` or the token. */
  get base(): string {
    return this.token === undefined ? '/' : `/${this.token}/`;
  }

  /**
   * Checks a request, and returns its path after the prefix, and its query.
   *
   * @throws HttpProblem 405 for any method but GET, 400 for several Host headers, 403 for a wrong Host header
   *   or a wrong token
   */
  check({ method, rawHeaders, url = '/' }: Pick<IncomingMessage, 'method' | 'rawHeaders' | 'url'>): URL {
    if (method !== 'GET') throw new HttpProblem(405, `${method} is not allowed: this page only reads`);
    // the raw headers are used, because Node.js keeps only the first of several Host headers, and a proxy may
    // have checked another of these headers
    const names = rawHeaders.filter(
      (_, at) => rawHeaders[at - (at % 2)]!.toLowerCase() === 'host' && at % 2 === 1,
    );
    if (names.length !== 1) {
      throw new HttpProblem(400, `${names.length} Host headers; a request has exactly one`);
    }
    if (!this.#isOwnName(names[0])) {
      throw new HttpProblem(
        403,
        'the Host header does not name this machine; open the address that mtl watch printed',
      );
    }
    // a dummy host is used, so that a host in `url` has no effect
    const asked = new URL(
      url.startsWith('/') ? `http://localhost${url.replace(/^\/+/, '/')}` : 'http://localhost/',
    );
    if (this.token === undefined) return asked;
    const [, token = '', ...rest] = asked.pathname.split('/');
    if (!isSame(token, this.token))
      throw new HttpProblem(
        403,
        'the address lacks the token; open the address that mtl watch printed, as a whole',
      );
    asked.pathname = `/${rest.join('/')}`;
    return asked;
  }

  #isOwnName(header: string | undefined): boolean {
    const name = /^(\[[0-9a-f:.]+\]|[^:[\]]+)(:\d+)?$/i.exec(header ?? '')?.[1]?.toLowerCase();
    if (name === undefined) return false;
    const bare = name.replace(/^\[|\]$/g, '');
    if (loopbackNames.includes(bare)) return true;
    return (
      this.token !== undefined &&
      (isIP(bare) > 0 || bare === this.#host.toLowerCase() || bare === hostname().toLowerCase())
    );
  }
}

/**
 * Compares two strings in constant time, so that the time does not reveal how much of the strings is equal.
 */
function isSame(one: string, other: string): boolean {
  const [a, b] = [one, other].map((text) => createHash('sha256').update(text).digest());
  return timingSafeEqual(a!, b!);
}
