import { EventEmitter } from 'node:events';
import { describe, expect, it } from 'vitest';
import { TerminalLine } from './terminal-line.js';

/** A terminal that displays written text as real terminals do: it wraps, overwrites and erases. */
class Screen extends EventEmitter {
  readonly isTTY = true;
  #rows: string[] = [''];
  #row = 0;
  #column = 0;
  /** True if the next character starts a new row. */
  #isFull = false;

  constructor(public columns: number) {
    super();
  }

  write(text: string): boolean {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences are what is looked for.
    for (const part of text.match(/\u001b\[\d*[A-Za-z]|./gs) ?? []) this.#take(part);
    return true;
  }

  /** The visible text, without empty rows at the end. */
  get rows(): string[] {
    return this.#rows.slice(0, this.#rows.findLastIndex((row) => row !== '') + 1);
  }

  /** Changes the width. The current row wraps, as in terminals that keep the text of a row together. */
  resize(columns: number): void {
    const text = this.#rows[this.#row]!;
    const parts = text.match(new RegExp(`.{1,${columns}}`, 'g')) ?? [''];
    this.#rows.splice(this.#row, 1, ...parts);
    this.#row += parts.length - 1;
    this.#column = parts.at(-1)!.length;
    this.columns = columns;
    this.emit('resize');
  }

  #take(part: string): void {
    const code = part.at(-1);
    if (part === '\n') [this.#row, this.#column, this.#isFull] = [this.#row + 1, 0, false];
    else if (part === '\r') [this.#column, this.#isFull] = [0, false];
    else if (!part.startsWith('\u001b')) this.#put(part);
    else if (code === 'A') this.#row -= Number(part.slice(2, -1));
    else if (code === 'J')
      this.#rows = [...this.#rows.slice(0, this.#row), this.#current.slice(0, this.#column)];
    else if (code !== 'm') throw new Error(`unknown: ${JSON.stringify(part)}`);
    this.#rows[this.#row] ??= '';
  }

  get #current(): string {
    return this.#rows[this.#row] ?? '';
  }

  #put(character: string): void {
    if (this.#isFull) [this.#row, this.#column, this.#isFull] = [this.#row + 1, 0, false];
    const row = this.#current.padEnd(this.#column);
    this.#rows[this.#row] = row.slice(0, this.#column) + character + row.slice(this.#column + 1);
    this.#column += 1;
    if (this.#column === this.columns) [this.#column, this.#isFull] = [this.columns - 1, true];
  }
}

describe('TerminalLine', () => {
  it('draws a line over itself, never wider than the terminal', () => {
    const stream = new Screen(10);
    const line = new TerminalLine({ stream });
    line.show('0123456789abcdef');
    expect(stream.rows).toEqual(['012345678']);
    line.show('short', (text) => `\u001b[36m${text}\u001b[39m`);
    expect(stream.rows).toEqual(['short']);
    line.close();
    expect(stream.rows).toEqual([]);
  });

  it('has what others print appear above it, whole', () => {
    const stream = new Screen(20);
    // `error` is the standard error stream of the same terminal
    const error = { isTTY: true, write: (text: string) => Screen.prototype.write.call(stream, text) };
    const line = new TerminalLine({ stream, others: [error] });
    line.show('step 1');
    stream.write('saved\n');
    error.write('warning: half a ');
    expect(stream.rows).toEqual(['saved', 'warning: half a ']);
    line.show('step 2');
    expect(stream.rows).toEqual(['saved', 'warning: half a ']);
    error.write('line\n');
    expect(stream.rows).toEqual(['saved', 'warning: half a line', 'step 2']);
    line.close();
    error.write('end\n');
    expect(stream.rows).toEqual(['saved', 'warning: half a line', 'end']);
    expect(Object.hasOwn(stream, 'write')).toBe(false);
    expect(stream.listenerCount('resize')).toBe(0);
  });

  it('leaves nothing behind when the terminal becomes narrower or wider', () => {
    const stream = new Screen(30);
    const line = new TerminalLine({ stream });
    stream.write('before\n');
    line.show('0123456789abcdefghij');
    stream.resize(8);
    expect(stream.rows).toEqual(['before', '0123456']);
    stream.resize(40);
    expect(stream.rows).toEqual(['before', '0123456789abcdefghij']);
    line.close();
    expect(stream.rows).toEqual(['before']);
  });

  it('is taken away when the process ends, in whatever way', () => {
    const stream = new Screen(30);
    const before = process.listeners('exit');
    const line = new TerminalLine({ stream });
    line.show('step 1');
    const [atExit] = process.listeners('exit').filter((listener) => !before.includes(listener));
    atExit!(1);
    expect(stream.rows).toEqual([]);
    line.close();
    expect(process.listeners('exit')).toEqual(before);
  });
});
