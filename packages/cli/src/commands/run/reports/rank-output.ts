/**
 * The time that a process may live on after its error before the error is shown. Ending takes milliseconds.
 */
const heldMs = 5_000;

/**
 * Passes on the standard error of a process, line by line, except the final coded error, printed by
 * `formatError` of @mtl/errors, also with --debug. The final error is held back, so that a launcher shows it
 * once if several processes end with it. The error is shown after all if other output follows, or if the
 * process does not end.
 */
export class FinalError {
  readonly #show: (lines: Buffer) => void;
  readonly #whole = new LinePrefixer('');
  // one character a byte, so that invalid UTF-8 is shown unchanged
  #held = '';
  #limit: NodeJS.Timeout | undefined;
  #lastError = '';
  #lastLine = '';

  /** @param show gets whole lines */
  constructor(show: (lines: Buffer) => void) {
    this.#show = show;
  }

  /** The error that was held back to the end, without the line feed behind it; else empty. */
  get error(): string {
    return decodeText(this.#held).trimEnd();
  }

  /** The first line of its last coded error, else its last line; empty when it wrote nothing. */
  get lastMessage(): string {
    return decodeText(this.#lastError || this.#lastLine);
  }

  push(chunk: Buffer): void {
    this.#take(this.#whole.push(chunk).toString('latin1'));
  }

  /** Takes the end of the output: a last line needs no line feed. */
  end(): void {
    this.#take(this.#whole.end().toString('latin1'));
    clearTimeout(this.#limit);
  }

  #take(lines: string): void {
    let shown = '';
    for (const line of lines.match(/[^\n]*\n/g) ?? []) {
      if (line.trim() !== '') this.#lastLine = line.trimEnd();
      if (line.startsWith('error[')) {
        this.#lastError = line.trimEnd();
        shown += this.#replaceHeld(line);
      } else if (this.#held !== '' && (line.startsWith('  ') || this.#beginsStack(line))) {
        this.#held += line;
      } else {
        shown += this.#replaceHeld('') + line;
      }
    }
    if (shown !== '') this.#show(Buffer.from(shown, 'latin1'));
  }

  /**
   * Returns whether it is the first line of the stack that --debug prints after an error: its class and
   * message again.
   */
  #beginsStack(line: string): boolean {
    const [, message] = /^\w*Error: (.+)$/.exec(line.trimEnd()) ?? [];
    return message !== undefined && this.#lastError.includes(`]: ${message}`);
  }

  /** Returns the held text, which is no longer the final error, and holds a new line. */
  #replaceHeld(line: string): string {
    const before = this.#held;
    this.#held = line;
    clearTimeout(this.#limit);
    if (line !== '') {
      this.#limit = setTimeout(() => this.#show(Buffer.from(this.#replaceHeld(''), 'latin1')), heldMs);
      this.#limit.unref();
    }
    return before;
  }
}

function decodeText(bytes: string): string {
  return Buffer.from(bytes, 'latin1').toString('utf8');
}

const lineFeed = 0x0a;
const maximumBytes = 1 << 20;

/**
 * Splits the output of a process into whole lines with a prefix, so that the lines of several processes never
 * mix.
 */
export class LinePrefixer {
  readonly #prefix: Buffer;
  #rest = Buffer.alloc(0);

  constructor(prefix: string) {
    this.#prefix = Buffer.from(prefix);
  }

  /** Returns the lines that are complete now, as one buffer; empty if there are none. */
  push(chunk: Buffer): Buffer {
    const bytes = Buffer.concat([this.#rest, chunk]);
    const end = bytes.lastIndexOf(lineFeed) + 1;
    this.#rest = bytes.subarray(end);
    const lines = this.#withPrefix(bytes.subarray(0, end));
    // a line without an end must not fill the memory
    return this.#rest.length > maximumBytes ? Buffer.concat([lines, this.end()]) : lines;
  }

  /** Returns the rest when the process has ended, with a line feed added. */
  end(): Buffer {
    const rest = this.#rest;
    this.#rest = Buffer.alloc(0);
    return rest.length === 0 ? rest : this.#withPrefix(Buffer.concat([rest, Buffer.from([lineFeed])]));
  }

  #withPrefix(lines: Buffer): Buffer {
    const parts: Buffer[] = [];
    for (let start = 0; start < lines.length; ) {
      const end = lines.indexOf(lineFeed, start) + 1;
      parts.push(this.#prefix, lines.subarray(start, end));
      start = end;
    }
    return Buffer.concat(parts);
  }
}
