import { proxyNote, requestSender, type SendRequest } from '@mtl/hub/internal';

interface JsonRequest {
  /** The address of the request. The HTTP method is POST if there is a body, and GET otherwise. */
  readonly url: string;
  readonly body?: unknown;
  /** The value of the header `authorization`. Errors never contain it. */
  readonly authorization: string | undefined;
  /** Texts that no error may contain. */
  readonly secrets: readonly string[];
  /** Ends the request when it is aborted. */
  readonly signal?: AbortSignal | undefined;
}

const timeoutMs = 20_000;
/** The maximum number of characters of an answer that an error message shows. */
const mostCharacters = 200;

/**
 * Sends a request to a tracking service and returns the JSON value in its answer.
 *
 * @throws ServiceError if there is no answer, or if the answer is an error
 */
export async function requestJson(request: JsonRequest): Promise<unknown> {
  const { url, body, authorization, signal } = request;
  const limit = AbortSignal.timeout(timeoutMs);
  const send = await requestSender();
  let response: Awaited<ReturnType<SendRequest>>;
  let text: string;
  try {
    response = await send(url, {
      method: body === undefined ? 'GET' : 'POST',
      headers: {
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(authorization === undefined ? {} : { authorization }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: signal === undefined ? limit : AbortSignal.any([limit, signal]),
    });
    text = await response.text();
  } catch (error) {
    // the error has no note about the proxy if the end of the run has aborted the request
    const note = (error as Error).name === 'AbortError' ? '' : proxyNote(url);
    throw new ServiceError(without(`${describeReason(error)}${note}`, request.secrets));
  }
  const parsed = parseJson(text);
  if (response.ok && parsed !== undefined) return parsed;
  const seconds = Number(response.headers.get('retry-after') ?? Number.NaN);
  const said = readMessage(parsed) ?? text;
  const message = `HTTP ${response.status} ${response.statusText} ${said}`.replaceAll(/\s+/g, ' ').trim();
  throw new ServiceError(without(message, request.secrets).slice(0, mostCharacters), {
    // an answer that is not JSON comes from an intermediary, such as a proxy
    status: response.ok ? 502 : response.status,
    retryAfterMs: Number.isNaN(seconds) ? undefined : seconds * 1000,
  });
}

function parseJson(text: string): unknown {
  try {
    return text === '' ? {} : JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * Returns the message in an error answer, from the fields that Weights & Biases, GraphQL servers and MLflow
 * use.
 */
function readMessage(answer: unknown): string | undefined {
  if (typeof answer !== 'object' || answer === null) return undefined;
  const { error, errors, message } = answer as Record<string, unknown>;
  const first = Array.isArray(errors) ? (errors[0] as { message?: unknown } | undefined)?.message : undefined;
  return [message, first, error].find((text) => typeof text === 'string');
}

interface ErrorCause {
  readonly code?: string;
  readonly message?: string;
  readonly cause?: ErrorCause;
}

function describeReason(error: unknown): string {
  const { name, message } = error as Error;
  if (name === 'AbortError') return 'no answer before the run ended';
  if (name === 'TimeoutError') return `no answer within ${timeoutMs / 1000} s`;
  // if a proxy rejects a tunnel, the reason is the cause of the error's cause
  let cause = (error as Error).cause as ErrorCause | undefined;
  while (cause?.cause !== undefined) cause = cause.cause;
  const { code, message: why } = cause ?? {};
  return [message, why || code].filter((text) => text !== undefined && text !== '').join(': ');
}

function without(text: string, secrets: readonly string[]): string {
  return secrets.reduce((kept, secret) => (secret === '' ? kept : kept.replaceAll(secret, '***')), text);
}

/**
 * Matches control characters and characters that change the direction of text, so that an answer cannot
 * control the terminal on which it is shown.
 */
const controls = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]+/gu;

/** An error of a tracking service. Contains the service's answer, or the reason why there is no answer. */
export class ServiceError extends Error {
  override readonly name = 'ServiceError';

  /** `message` is shown without control characters */
  constructor(
    message: string,
    /**
     * `status`: the HTTP status of the answer, undefined without an answer; `retryAfterMs`: the waiting time
     * that the answer requests.
     */
    readonly answer: { readonly status?: number; readonly retryAfterMs?: number | undefined } = {},
  ) {
    super(message.replaceAll(controls, ' ').trim());
  }

  /** True if the request may succeed later, because the service is unavailable or overloaded. */
  get isPassing(): boolean {
    const { status } = this.answer;
    return status === undefined || status === 408 || status === 429 || status >= 500;
  }
}
