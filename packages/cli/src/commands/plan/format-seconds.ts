/** Seconds, or milliseconds below one. */
export function formatSeconds(seconds: number): string {
  if (seconds >= 1) return `${seconds.toFixed(2)} s`;
  return `${(1000 * seconds).toPrecision(3)} ms`;
}
