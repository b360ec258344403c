import { LinePrefixer } from './line-prefixer.js';

/** How long a process may live on after its error before that is shown: ending takes milliseconds. */
const heldMs = 5_000;

/**
 * What a process writes on standard error, line by line, but for the coded error that it ends with, as
 * `formatError` of @mtl/errors prints it, with --debug too: that is held back, so that a launcher can show
 * once what several processes end with. It is shown after all when something else follows it, or no end.
 */
export class FinalError {
  readonly #show: (lines: Buffer) => void;
  readonly #whole = new LinePrefixer('');
  // one character a byte: what is no UTF-8 is shown as it came
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
    return textOf(this.#held).trimEnd();
  }

  /** The first line of its last coded error, else its last line; empty when it wrote nothing. */
  get lastMessage(): string {
    return textOf(this.#lastError || this.#lastLine);
  }

  push(chunk: Buffer): void {
    this.#take(this.#whole.push(chunk).toString('latin1'));
  }

  /** Nothing more comes: a last line needs no line feed. */
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
   * Whether it is the first line of the stack that --debug prints after an error: its class and message
   * again.
   */
  #beginsStack(line: string): boolean {
    const [, message] = /^\w*Error: (.+)$/.exec(line.trimEnd()) ?? [];
    return message !== undefined && this.#lastError.includes(`]: ${message}`);
  }

  /** Gives what was held, which is not the last word any more. */
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

function textOf(bytes: string): string {
  return Buffer.from(bytes, 'latin1').toString('utf8');
}
