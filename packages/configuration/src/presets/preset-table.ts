import type { Flags } from '../schema/flag-schema.js';

export interface PresetTableOptions<Column extends keyof Flags, Name extends string> {
  /** The flags that all presets of the table have in common. */
  readonly recipe: Flags;
  /** The flags that differ between presets. Each flag is a column of the table. */
  readonly columns: readonly Column[];
  /** The values of the columns by preset name; a row may omit the last columns. */
  readonly rows: Readonly<Record<Name, readonly number[]>>;
}

/** Makes presets from a common recipe and a table. Each column of the table has the values of one flag. */
export function presetTable<Column extends keyof Flags, Name extends string>({
  recipe,
  columns,
  rows,
}: PresetTableOptions<Column, Name>): Readonly<Record<Name, Flags>> {
  const preset = (sizes: readonly number[]): Flags => ({
    ...recipe,
    ...(Object.fromEntries(sizes.map((size, index) => [columns[index]!, size])) as Flags),
  });
  const entries = Object.entries<readonly number[]>(rows).map(([name, sizes]) => [name, preset(sizes)]);
  return Object.fromEntries(entries) as Readonly<Record<Name, Flags>>;
}
