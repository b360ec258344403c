/**
 * Converts tokens to text as they arrive. Text is returned as soon as it is complete, because a character may
 * need several tokens (UTF-8 bytes), and a token's text may depend on the previous token.
 */
export class TextStream {
  readonly #decode: (tokens: readonly number[]) => string;
  /**
   * The tokens since the text was last complete. Only these tokens are decoded, so that each call is fast.
   */
  #tokens: number[] = [];
  /**
   * How many entries of `#tokens` have been returned as text; `#numCharacters` is the length of this text.
   */
  #numTokens = 0;
  #numCharacters = 0;

  constructor(decode: (tokens: readonly number[]) => string) {
    this.#decode = decode;
  }

  /**
   * Adds a token, and returns the text that it completes. The result is empty while a character is
   * incomplete.
   */
  push(token: number): string {
    this.#tokens.push(token);
    const text = this.#decode(this.#tokens);
    // U+FFFD at the end marks an incomplete character
    if (text.endsWith('\uFFFD')) return '';
    const part = text.slice(this.#numCharacters);
    // the last tokens are kept as context, because some decoders change the beginning of a text
    this.#tokens = this.#tokens.slice(this.#numTokens);
    this.#numTokens = this.#tokens.length;
    this.#numCharacters = this.#decode(this.#tokens).length;
    return part;
  }

  /** Returns the rest of the text after the last token. An incomplete character becomes U+FFFD. */
  end(): string {
    const part = this.#decode(this.#tokens).slice(this.#numCharacters);
    this.#tokens = [];
    this.#numTokens = 0;
    this.#numCharacters = 0;
    return part;
  }
}
