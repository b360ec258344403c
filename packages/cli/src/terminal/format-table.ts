import { wrapText } from './wrap-text.js';

/**
 * Rows of names and values, values aligned: two spaces in front, two between; long values in several lines.
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
