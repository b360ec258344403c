interface ErrorCause {
  readonly code?: string;
  readonly message?: string;
  readonly cause?: ErrorCause;
}

/** Returns why a request failed: the innermost cause, which comes from the system or the proxy. */
export function findReason(error: unknown): string {
  const { message } = error as Error;
  let cause = (error as ErrorCause).cause;
  while (cause?.cause !== undefined) cause = cause.cause;
  const inner = cause?.message || cause?.code;
  return shown(inner === undefined ? message : inner);
}

/** Matches control characters and characters that change the direction of text. */
const controls = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]+/gu;

/** The maximum number of characters of an answer that a message shows. */
const mostCharacters = 200;

/**
 * Returns a text from outside in a form that is safe for messages: on one line and without control
 * characters.
 */
export function shown(text: string): string {
  const line = text.replaceAll(controls, ' ').replaceAll(/\s+/g, ' ').trim();
  return line.length > mostCharacters ? `${line.slice(0, mostCharacters)}…` : line;
}
