import type { ServerResponse } from 'node:http';
import type { MtlError } from '@mtl/errors';

/**
 * Headers of every response. Browsers load only files from this server and run no inline scripts. Other pages
 * cannot embed or read the page. The address, which may contain a token, is not sent to other sites.
 */
const headers = {
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cache-Control': 'no-store',
};

/** Answers a request with a complete body of a content type such as `text/css`. */
export function respond(
  response: ServerResponse,
  {
    status = 200,
    type,
    body,
  }: { readonly status?: number; readonly type: string; readonly body: string | Buffer },
): void {
  response.writeHead(status, {
    ...headers,
    'Content-Type': `${type}; charset=utf-8`,
    'Content-Length': Buffer.byteLength(body),
    ...(status === 405 ? { Allow: 'GET' } : {}),
  });
  response.end(body);
}

/** Begins a response of server-sent events, which stays open. */
export function beginEvents(response: ServerResponse): void {
  const type = { 'Content-Type': 'text/event-stream; charset=utf-8', Connection: 'close' };
  response.writeHead(200, { ...headers, ...type });
  response.flushHeaders();
}

/** An error with which a request is answered; the client gets `message`. */
export class HttpProblem extends Error {
  readonly status: 400 | 403 | 404 | 405 | 500 | 503;

  constructor(status: HttpProblem['status'], message: string) {
    super(message);
    this.status = status;
  }
}

/** Returns the message and the remedy of an error, in one line for the page. */
export function textOfError({ code, message, remedy }: MtlError): string {
  return `${code}: ${message}${remedy === undefined ? '' : `. What to do: ${remedy}`}`;
}
