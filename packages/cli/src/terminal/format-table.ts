/** Rows of names and values, values aligned: two spaces in front, two between. */
export function formatTable(rows: ReadonlyArray<readonly [name: string, value: string | number]>): string {
  const width = Math.max(0, ...rows.map(([name]) => name.length));
  return rows.map(([name, value]) => `  ${name.padEnd(width)}  ${formatValue(value)}\n`).join('');
}

function formatValue(value: string | number): string {
  return typeof value === 'number' ? value.toLocaleString('en-US') : value;
}
