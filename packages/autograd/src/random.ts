import { createHash } from 'node:crypto';

/** A Philox key: 64 bits as two unsigned 32-bit halves. */
export type PhiloxKey = readonly [low: number, high: number];

/**
 * The key of a random site: the first 64 bits of SHA-256 over the seed and the site's logical name. Layout
 * does not enter, so initial weights and dropout masks are the same for any tensor-, pipeline- or
 * data-parallel size.
 */
export function siteKey(seed: number, site: string): PhiloxKey {
  const digest = createHash('sha256').update(`${seed}\0${site}`).digest();
  return [digest.readUInt32LE(0), digest.readUInt32LE(4)];
}
