/**
 * How long an error is held back, at most, if its process has not ended, in milliseconds. Processes normally
 * end within milliseconds of their error.
 */
const heldMs = 5_000;

/**
 * Forwards the standard error of a process line by line, but holds back the final coded error (in the format
 * of `formatError` of @mtl/errors, even with --debug). If several processes end with the same error, a
 * launcher can then print the error once. The error is printed if other output follows, or if the process
 * does not end.
 */
export class FinalError {
  readonly #show: (lines: Buffer) => void;
  readonly #whole = new LinePrefixer('');
  // each character represents one byte, so that invalid UTF-8 is not changed
  #held = '';
  #limit: NodeJS.Timeout | undefined;
  #lastError = '';
  #lastLine = '';

  /** @param show is called with complete lines */
  constructor(show: (lines: Buffer) => void) {
    this.#show = show;
  }

  /** The final error that was held back, without its line feed; empty if there was no such error. */
  get error(): string {
    return decodeText(this.#held).trimEnd();
  }

  /**
   * The first line of the process's last coded error. Without a coded error, it is the process's last line,
   * which is empty if the process wrote nothing.
   */
  get lastMessage(): string {
    return decodeText(this.#lastError || this.#lastLine);
  }

  push(chunk: Buffer): void {
    this.#take(this.#whole.push(chunk).toString('latin1'));
  }

  /** Processes the end of the output, where the last line may lack a line feed. */
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
   * Returns true if a line begins the stack trace that --debug prints after an error. Such a line repeats the
   * error's class and message.
   */
  #beginsStack(line: string): boolean {
    const [, message] = /^\w*Error: (.+)$/.exec(line.trimEnd()) ?? [];
    return message !== undefined && this.#lastError.includes(`]: ${message}`);
  }

  /**
   * Holds back a new line. Returns the text that was held back before, because it was not the final error.
   */
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
 * Splits the output of a process into complete lines with a prefix, so that lines of several processes never
 * mix.
 */
export class LinePrefixer {
  readonly #prefix: Buffer;
  #rest = Buffer.alloc(0);

  constructor(prefix: string) {
    this.#prefix = Buffer.from(prefix);
  }

  /**
   * Returns the lines that this chunk completes, as one buffer. The buffer is empty if there are no complete
   * lines.
   */
  push(chunk: Buffer): Buffer {
    const bytes = Buffer.concat([this.#rest, chunk]);
    const end = bytes.lastIndexOf(lineFeed) + 1;
    this.#rest = bytes.subarray(end);
    const lines = this.#withPrefix(bytes.subarray(0, end));
    // splits a very long line, because a line of unlimited length would fill the memory
    return this.#rest.length > maximumBytes ? Buffer.concat([lines, this.end()]) : lines;
  }

  /** Returns the rest of the output after the process has ended, and adds a line feed. */
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
