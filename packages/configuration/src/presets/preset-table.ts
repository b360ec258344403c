import type { Flags } from '../schema/flag-schema.js';

export interface PresetTableOptions<Column extends keyof Flags, Name extends string> {
  /** The flags of every preset of the table. */
  readonly recipe: Flags;
  /** The flags in which the presets differ, one for each column. */
  readonly columns: readonly Column[];
  /** The values of the columns by the name of the preset; a row may leave out the last columns. */
  readonly rows: Readonly<Record<Name, readonly number[]>>;
}

/** Returns presets that share a recipe and differ in sizes: a flag for each column. */
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
