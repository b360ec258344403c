/** What so many bytes took. */
export interface BytesPoint {
  readonly bytes: number;
  readonly seconds: number;
}

/**
 * Seconds of so many bytes: in logarithms linear between the two points around them; those of the smallest
 * below it, and in proportion to the bytes above the largest.
 */
export function secondsOfBytes(points: readonly BytesPoint[], bytes: number): number {
  const sorted = [...points].sort((a, b) => a.bytes - b.bytes);
  const above = sorted.findIndex((point) => point.bytes >= bytes);
  if (above === 0) return sorted[0]!.seconds;
  const last = sorted.at(-1)!;
  if (above < 0) return (last.seconds * bytes) / last.bytes;
  const [low, high] = [sorted[above - 1]!, sorted[above]!];
  const part = Math.log(bytes / low.bytes) / Math.log(high.bytes / low.bytes);
  return low.seconds * (high.seconds / low.seconds) ** part;
}
