const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const;

/** Bytes for people: `3.2 GiB`. */
export function textOfBytes(bytes: number): string {
  const power = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log2(Math.max(1, bytes)) / 10)));
  return `${(bytes / 2 ** (10 * power)).toFixed(power === 0 ? 0 : 1)} ${units[power]}`;
}
