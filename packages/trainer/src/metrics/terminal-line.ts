/**
 * The part of a stream's interface that TerminalLine needs. An example of such a stream is `process.stdout`.
 */
export interface TerminalStream {
  write(text: string): unknown;
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  on?(event: 'resize', listener: () => void): unknown;
  off?(event: 'resize', listener: () => void): unknown;
}

interface TerminalLineOptions {
  readonly stream: TerminalStream;
  /** Further streams to the same terminal, such as `process.stderr`. Their output is not overwritten. */
  readonly others?: readonly TerminalStream[];
}

/** The assumed width, in columns, of a terminal that does not report its width. */
const usualColumns = 80;

/**
 * A line at the bottom of a terminal that is redrawn in place. Output to its stream, or to a further stream
 * of the same terminal, appears above the line. The line is removed when the process ends, for whatever
 * reason.
 */
export class TerminalLine {
  readonly #stream: TerminalStream;
  readonly #write: (text: string) => unknown;
  readonly #restore: Array<() => void> = [];
  /** The text on the terminal, as the caller passed it. */
  #shown: { readonly text: string; readonly style: (text: string) => string } | undefined;
  /** The number of columns that the drawn text occupies; undefined while no text is drawn. */
  #width: number | undefined;
  /**
   * True if the last foreign output ended without a line feed. The line is not drawn after an unfinished
   * line.
   */
  #isMidLine = false;

  constructor({ stream, others = [] }: TerminalLineOptions) {
    this.#stream = stream;
    this.#write = stream.write.bind(stream);
    for (const each of new Set([stream, ...others])) if (each.isTTY === true) this.#guard(each);
    const redraw = (): void => this.#redraw();
    const clear = (): void => this.clear();
    stream.on?.('resize', redraw);
    process.on('exit', clear);
    this.#restore.push(
      () => stream.off?.('resize', redraw),
      () => process.off('exit', clear),
    );
  }

  /** Draws `text`, cut to the width of the terminal and coloured by `style`. */
  show(text: string, style: (text: string) => string = (plain) => plain): void {
    this.#shown = { text, style };
    this.#redraw();
  }

  /** Removes the line until the next `show`. */
  clear(): void {
    this.#erase();
    this.#shown = undefined;
  }

  /** Removes the line permanently, and restores the streams. */
  close(): void {
    this.clear();
    for (const restore of this.#restore.splice(0)) restore();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  get #columns(): number {
    return this.#stream.columns || usualColumns;
  }

  #redraw(): void {
    this.#erase();
    if (this.#shown === undefined || this.#isMidLine) return;
    const { text, style } = this.#shown;
    // the last column stays empty because some terminals wrap there
    const cut = [...text].slice(0, this.#columns - 1).join('');
    this.#write(style(cut));
    this.#width = [...cut].length;
  }

  #erase(): void {
    if (this.#width === undefined) return;
    // a terminal that has become narrower has wrapped the line
    const numAbove = Math.max(0, Math.ceil(this.#width / this.#columns) - 1);
    // moves the cursor up and to the start of the line, then erases to the end of the screen
    this.#write(`${numAbove > 0 ? `\u001b[${numAbove}A` : ''}\r\u001b[J`);
    this.#width = undefined;
  }

  /** Makes foreign output to `stream` appear above the line, by replacing the stream's `write`. */
  #guard(stream: TerminalStream): void {
    const hadOwn = Object.hasOwn(stream, 'write');
    const write = stream.write;
    const guarded = (...words: readonly unknown[]): unknown => {
      this.#erase();
      const result = Reflect.apply(write, stream, words);
      const [text] = words;
      const last = typeof text === 'string' ? text.at(-1) : (text as Uint8Array).at(-1);
      if (last !== undefined) this.#isMidLine = last !== '\n' && last !== 0x0a;
      this.#redraw();
      return result;
    };
    Object.assign(stream, { write: guarded });
    this.#restore.push(() => {
      // a later TerminalLine may have replaced `write` in the meantime, and its replacement must not be
      // removed
      if (stream.write !== (guarded as typeof stream.write)) return;
      if (hadOwn) Object.assign(stream, { write });
      else delete (stream as Partial<TerminalStream>).write;
    });
  }
}
