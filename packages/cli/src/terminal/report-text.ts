/**
 * Formats rows of names and values as a table. Two spaces separate the columns and begin each row. A long
 * value takes several lines.
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

/** The largest width of a report, in characters. */
export const reportColumns = 100;

export interface WrapTextOptions {
  /** The string at the beginning of every line except the first. */
  readonly indent?: string;
  /** The string at the end of every line except the last, such as a backslash in command lines. */
  readonly continuation?: string;
  /** How many columns of the first line are already used. */
  readonly taken?: number;
}

/**
 * Wraps `text` into lines of at most `reportColumns` characters. Lines break at blanks, and a longer word has
 * its own line.
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

/**
 * Wraps a command line with backslashes, so that a shell reads it as one line. Each flag stays on one line
 * with its value.
 */
export function wrapCommand(words: string, indent: string): string {
  // replaces the blank between a flag and its value, so that the line does not break there
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
