interface ErrorCause {
  readonly code?: string;
  readonly message?: string;
  readonly cause?: ErrorCause;
}

/** Returns why a request failed: the error's innermost cause, which comes from the system or the proxy. */
export function findReason(error: unknown): string {
  const { message } = error as Error;
  let cause = (error as ErrorCause).cause;
  while (cause?.cause !== undefined) cause = cause.cause;
  const inner = cause?.message || cause?.code;
  return shown(inner === undefined ? message : inner);
}

/** Matches control characters, including characters that change the text direction. */
const controls = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]+/gu;

/** How many characters of an answer a message shows at most. */
const mostCharacters = 200;

/**
 * Makes a string from outside safe for messages: puts it on a single line, removes control characters and
 * limits its length.
 */
export function shown(text: string): string {
  const line = text.replaceAll(controls, ' ').replaceAll(/\s+/g, ' ').trim();
  return line.length > mostCharacters ? `${line.slice(0, mostCharacters)}…` : line;
}
