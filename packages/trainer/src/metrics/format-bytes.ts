const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const;

/** `512 B`, `11.3 MiB`, `3.2 GiB`. */
export function formatBytes(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${value.toFixed(unit === 0 ? 0 : 1)} ${units[unit]}`;
}
