const lineFeed = 0x0a;
const maximumBytes = 1 << 20;

/**
 * Splits what a process writes into whole lines with a prefix, so that those of several processes never mix.
 */
export class LinePrefixer {
  readonly #prefix: Buffer;
  #rest = Buffer.alloc(0);

  constructor(prefix: string) {
    this.#prefix = Buffer.from(prefix);
  }

  /** The lines that are whole now, as one buffer; empty while there are none. */
  push(chunk: Buffer): Buffer {
    const bytes = Buffer.concat([this.#rest, chunk]);
    const end = bytes.lastIndexOf(lineFeed) + 1;
    this.#rest = bytes.subarray(end);
    const lines = this.#withPrefix(bytes.subarray(0, end));
    // a line without an end must not fill the memory
    return this.#rest.length > maximumBytes ? Buffer.concat([lines, this.end()]) : lines;
  }

  /** What is left when the process has ended, with the line feed that it lacks. */
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
