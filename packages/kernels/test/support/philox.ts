/** Returns the upper 32 bits of a product of 32-bit numbers, from products of their halves. */
function upperProduct(left: number, right: number): number {
  const [leftHigh, leftLow] = [Math.floor(left / 65536), left % 65536];
  const [rightHigh, rightLow] = [Math.floor(right / 65536), right % 65536];
  const first = leftHigh * rightLow + Math.floor((leftLow * rightLow) / 65536);
  const second = leftLow * rightHigh + (first % 65536);
  return leftHigh * rightHigh + Math.floor(first / 65536) + Math.floor(second / 65536);
}

/** Computes Philox 4x32-10 (Salmon et al. 2011) on numbers, independently of the native code. */
export function philox(counter: readonly number[], key: readonly [number, number]): number[] {
  let [c0, c1, c2, c3] = counter as [number, number, number, number];
  let [k0, k1] = key;
  for (let round = 0; round < 10; round++) {
    const [upper0, lower0] = [upperProduct(0xd2511f53, c0), Math.imul(0xd2511f53, c0) >>> 0];
    const [upper1, lower1] = [upperProduct(0xcd9e8d57, c2), Math.imul(0xcd9e8d57, c2) >>> 0];
    c0 = (upper1 ^ c1 ^ k0) >>> 0;
    c1 = lower1;
    c2 = (upper0 ^ c3 ^ k1) >>> 0;
    c3 = lower0;
    k0 = (k0 + 0x9e3779b9) % 2 ** 32;
    k1 = (k1 + 0xbb67ae85) % 2 ** 32;
  }
  return [c0, c1, c2, c3];
}

/**
 * Returns the 32 random bits of an element of a row, by its coordinates in the global tensor: the mapping of
 * native/core/philox.h.
 */
export function philoxElement(
  key: readonly [number, number],
  at: { readonly column: number; readonly row: number; readonly sample: number; readonly head: number },
): number {
  const { column, row, sample, head } = at;
  const counter = Math.floor(column / 64) * 16 + (column % 16);
  const high = (Math.floor(sample / 2 ** 32) % 65536) + head * 65536;
  return philox([counter, row, sample % 2 ** 32, high], key)[Math.floor(column / 16) % 4]!;
}
