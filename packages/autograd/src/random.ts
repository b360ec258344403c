import { sha256 } from '@noble/hashes/sha2.js';

/** A Philox key: 64 bits as two unsigned 32-bit halves. */
export type PhiloxKey = readonly [low: number, high: number];

/**
 * Returns the key of a random site: the first 64 bits of SHA-256 over the seed and the site's logical name.
 * The key does not depend on the layout, so initial weights and dropout masks are the same for any tensor-,
 * pipeline- or data-parallel size.
 */
export function siteKey(seed: number, site: string): PhiloxKey {
  const { buffer, byteOffset } = sha256(new TextEncoder().encode(`${seed}\0${site}`));
  const digest = new DataView(buffer, byteOffset);
  return [digest.getUint32(0, true), digest.getUint32(4, true)];
}

const multiplier0 = 0xd2511f53;
const multiplier1 = 0xcd9e8d57;
const weyl0 = 0x9e3779b9;
const weyl1 = 0xbb67ae85;

/** Returns the upper 32 bits of the product of two unsigned 32-bit integers. */
function highProduct(a: number, b: number): number {
  const [aHigh, aLow] = [a >>> 16, a & 0xffff];
  const [bHigh, bLow] = [b >>> 16, b & 0xffff];
  const low = aLow * bLow;
  const middle = aHigh * bLow + Math.floor(low / 65536);
  const carried = aLow * bHigh + (middle % 65536);
  return (aHigh * bHigh + Math.floor(middle / 65536) + Math.floor(carried / 65536)) >>> 0;
}

type Words = readonly [number, number, number, number];

/**
 * Computes Philox 4x32-10 (Salmon et al. 2011): 128 random bits from a key and a counter, as four unsigned
 * 32-bit words.
 */
export function philox(key: PhiloxKey, counter: Words): Words {
  let [key0, key1] = key;
  let [word0, word1, word2, word3] = counter;
  for (let round = 0; round < 10; round++) {
    const high0 = highProduct(multiplier0, word0);
    const low0 = Math.imul(multiplier0, word0) >>> 0;
    const high1 = highProduct(multiplier1, word2);
    const low1 = Math.imul(multiplier1, word2) >>> 0;
    word0 = (high1 ^ word1 ^ key0) >>> 0;
    word1 = low1;
    word2 = (high0 ^ word3 ^ key1) >>> 0;
    word3 = low0;
    key0 = (key0 + weyl0) >>> 0;
    key1 = (key1 + weyl1) >>> 0;
  }
  return [word0, word1, word2, word3];
}
