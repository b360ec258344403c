/**
 * Formats rows of names and values, values aligned: two spaces in front, two between; long values in several
 * lines.
 */
export function formatTable(rows: ReadonlyArray<readonly [name: string, value: string | number]>): string {
  const width = Math.max(0, ...rows.map(([name]) => name.length));
  const indent = ' '.repeat(width + 4);
  return rows
    .map(([name, value]) => {
      const text = wrapText(formatValue(value), { indent, taken: indent.length });
      return `  ${name.padEnd(width)}  ${text}\n`;
    })
    .join('');
}

function formatValue(value: string | number): string {
  return typeof value === 'number' ? value.toLocaleString('en-US') : value;
}

/** Largest number of columns of a report. */
export const reportColumns = 100;

export interface WrapTextOptions {
  /** The text that begins every line but the first. */
  readonly indent?: string;
  /** The text that ends every line but the last: a backslash for command lines. */
  readonly continuation?: string;
  /** Columns of the first line that are taken already. */
  readonly taken?: number;
}

/**
 * Wraps a text into lines of at most `reportColumns`, broken at blanks; a word that is longer has a line of
 * its own.
 */
export function wrapText(
  text: string,
  { indent = '', continuation = '', taken = 0 }: WrapTextOptions = {},
): string {
  const [first = '', ...words] = text.split(' ');
  const lines = [first];
  for (const word of words) {
    const line = lines.at(-1)!;
    const length = line.length + (lines.length === 1 ? taken : 0) + 1 + word.length + continuation.length;
    if (length <= reportColumns) lines[lines.length - 1] = `${line} ${word}`;
    else lines.push(`${indent}${word}`);
  }
  return lines.join(`${continuation}\n`);
}

/** Wraps words of a command line that a shell reads as one line: flags stay with the values behind them. */
export function wrapCommand(words: string, indent: string): string {
  // a blank between a flag and its value must not end a line
  const joined = words.replaceAll(/ (?!-)/g, '\u0000');
  const wrapped = wrapText(
    `${indent}${joined}`.replace(/^ +/, (blanks) => '\u0000'.repeat(blanks.length)),
    {
      indent: `${indent}  `.replaceAll(' ', '\u0000'),
      continuation: ' \\',
    },
  );
  return wrapped.replaceAll('\u0000', ' ');
}
