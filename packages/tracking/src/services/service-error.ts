/**
 * Control characters, and those that change the order of text: an answer must not steer the terminal that
 * shows it.
 */
const controls = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]+/gu;

/** What a tracking service answered in place of a result, or why it did not answer. */
export class ServiceError extends Error {
  override readonly name = 'ServiceError';

  /** `message`: shown without control characters */
  constructor(
    message: string,
    /** `status`: that of the answer, undefined where there was none; `retryAfterMs`: what it asks to wait. */
    readonly answer: { readonly status?: number; readonly retryAfterMs?: number | undefined } = {},
  ) {
    super(message.replaceAll(controls, ' ').trim());
  }

  /** Whether the same request may succeed later: the service is away, or has too much to do. */
  get isPassing(): boolean {
    const { status } = this.answer;
    return status === undefined || status === 408 || status === 429 || status >= 500;
  }
}
