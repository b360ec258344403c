const units = ['bytes', 'kB', 'MB', 'GB', 'TB'] as const;

/** Formats a number of bytes in units of 1000, as the Hub does: `2.8 GB`. */
export function sizeText(bytes: number): string {
  const power = bytes < 1000 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(bytes) / 3));
  const value = bytes / 1000 ** power;
  return `${power === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[power]}`;
}
