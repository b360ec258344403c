/** The properties of a terminal that a progress bar needs. */
export interface ProgressStream {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  write(text: string): unknown;
}

const barWidth = 24;
const redrawMilliseconds = 100;

/** A line that shows the progress of a command. It appears only on a terminal, and `close` removes it. */
export class ProgressBar {
  readonly #stream: ProgressStream;
  readonly #now: () => number;
  readonly #started: number;
  #drawnAt = Number.NEGATIVE_INFINITY;

  constructor(stream: ProgressStream = process.stderr, now: () => number = () => performance.now()) {
    this.#stream = stream;
    this.#now = now;
    this.#started = now();
  }

  /** Seconds since the bar was created. */
  get seconds(): number {
    return (this.#now() - this.#started) / 1000;
  }

  /**
   * Redraws the line, unless it was drawn a moment ago.
   *
   * @param fraction 0 to 1; undefined if the end is not known
   */
  update(fraction: number | undefined, text: string): void {
    if (this.#stream.isTTY !== true || this.#now() - this.#drawnAt < redrawMilliseconds) return;
    this.#drawnAt = this.#now();
    const line = fraction === undefined ? text : `${this.#bar(fraction)} ${text}`;
    this.#stream.write(`\r${line.slice(0, (this.#stream.columns ?? 80) - 1)}\x1b[K`);
  }

  close(): void {
    if (this.#drawnAt !== Number.NEGATIVE_INFINITY) this.#stream.write('\r\x1b[K');
    this.#drawnAt = Number.NEGATIVE_INFINITY;
  }

  #bar(fraction: number): string {
    const bounded = Math.min(1, Math.max(0, fraction));
    const filled = Math.round(bounded * barWidth);
    const remaining = bounded > 0.01 ? ` ${Math.ceil((this.seconds * (1 - bounded)) / bounded)} s left` : '';
    const percent = `${Math.floor(bounded * 100)}`.padStart(3);
    return `[${'='.repeat(filled)}${' '.repeat(barWidth - filled)}] ${percent}%${remaining}`;
  }
}
