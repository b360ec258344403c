/**
 * Converts tokens to text as they arrive. A character may need several tokens (UTF-8 bytes), and the text of
 * a token may depend on the previous token, so text is returned as soon as it is complete.
 */
export class TextStream {
  readonly #decode: (tokens: readonly number[]) => string;
  /**
   * The tokens since the last position at which the text was complete. Only these tokens are decoded, so that
   * each call is fast.
   */
  #tokens: number[] = [];
  /** The number of `#tokens`, and the number of characters of their text, that have been returned. */
  #numTokens = 0;
  #numCharacters = 0;

  constructor(decode: (tokens: readonly number[]) => string) {
    this.#decode = decode;
  }

  /** Adds a token, and returns the text that it completes. The text is empty within a character. */
  push(token: number): string {
    this.#tokens.push(token);
    const text = this.#decode(this.#tokens);
    // U+FFFD at the end marks an incomplete character
    if (text.endsWith('\uFFFD')) return '';
    const part = text.slice(this.#numCharacters);
    // the last tokens are kept as context, because some decoders change the start of a text
    this.#tokens = this.#tokens.slice(this.#numTokens);
    this.#numTokens = this.#tokens.length;
    this.#numCharacters = this.#decode(this.#tokens).length;
    return part;
  }

  /** Returns the rest of the text after the last token; an incomplete character is U+FFFD. */
  end(): string {
    const part = this.#decode(this.#tokens).slice(this.#numCharacters);
    this.#tokens = [];
    this.#numTokens = 0;
    this.#numCharacters = 0;
    return part;
  }
}
