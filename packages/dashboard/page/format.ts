const prefixes = [
  [1e12, 'T'],
  [1e9, 'G'],
  [1e6, 'M'],
  [1e3, 'k'],
] as const;

/** Returns a number with few digits: 5.418, 0.0123, 1.2e-5, 12,345. */
export function formatNumber(value: number | null | undefined, digits = 4): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return '–';
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return value.toExponential(2).replace('e+', 'e');
  if (Number.isInteger(value)) return value.toLocaleString('en-US');
  return value.toLocaleString('en-US', { maximumSignificantDigits: digits });
}

/** Returns a count with a decimal prefix: 12.3k, 4M. */
export function formatCount(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return '–';
  const [size, prefix] = prefixes.find(([least]) => Math.abs(value) >= least) ?? [1, ''];
  return `${(value / size).toLocaleString('en-US', { maximumSignificantDigits: 3 })}${prefix}`;
}

const binary = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

/** Returns bytes in binary units: 1.5 GiB. */
export function formatBytes(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return '–';
  let [size, unit] = [value, 0];
  while (Math.abs(size) >= 1024 && unit + 1 < binary.length) {
    size /= 1024;
    unit += 1;
  }
  return `${size.toLocaleString('en-US', { maximumSignificantDigits: 3 })} ${binary[unit]}`;
}

/** Returns seconds in the two largest units of time, such as 1 h 5 min or 12.3 s. */
export function formatSeconds(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return '–';
  if (value < 1) return `${formatNumber(1000 * value, 3)} ms`;
  if (value < 60) return `${formatNumber(value, 3)} s`;
  const minutes = Math.floor(value / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(value % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** Returns an ISO 8601 time in the user's time zone. */
export function formatTime(time: string | null): string {
  const date = new Date(time ?? '');
  if (Number.isNaN(date.getTime())) return '–';
  return date.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' });
}
