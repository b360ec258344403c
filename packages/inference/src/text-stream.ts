/**
 * Turns tokens into parts of a text as they arrive. One character may take several tokens (bytes of UTF-8),
 * and the text of a token may depend on the token before: a part is returned once it is complete.
 */
export class TextStream {
  readonly #decode: (tokens: readonly number[]) => string;
  /**
   * Tokens since the last position at which the text was complete: only these are decoded, which stays cheap.
   */
  #tokens: number[] = [];
  /** How many of `#tokens`, and how many characters of their text, have been returned. */
  #numTokens = 0;
  #numCharacters = 0;

  constructor(decode: (tokens: readonly number[]) => string) {
    this.#decode = decode;
  }

  /** Returns the text that this token completes; empty in the middle of a character. */
  push(token: number): string {
    this.#tokens.push(token);
    const text = this.#decode(this.#tokens);
    // U+FFFD marks bytes of an incomplete character
    if (text.endsWith('\uFFFD')) return '';
    const part = text.slice(this.#numCharacters);
    // the last part stays as context for the next one: some decoders strip or join at the start of a text
    this.#tokens = this.#tokens.slice(this.#numTokens);
    this.#numTokens = this.#tokens.length;
    this.#numCharacters = this.#decode(this.#tokens).length;
    return part;
  }

  /** Returns the rest of the text at the end, broken characters included. */
  end(): string {
    const part = this.#decode(this.#tokens).slice(this.#numCharacters);
    this.#tokens = [];
    this.#numTokens = 0;
    this.#numCharacters = 0;
    return part;
  }
}
