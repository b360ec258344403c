/**
 * Computes Philox 4x32-10 (Salmon et al. 2011) on big integers: slowly, and independently of the native code.
 */
export function philox(counter: readonly number[], key: readonly [number, number]): number[] {
  const mask = 0xffffffffn;
  let [c0, c1, c2, c3] = counter.map(BigInt) as [bigint, bigint, bigint, bigint];
  let [k0, k1] = key.map(BigInt) as [bigint, bigint];
  for (let round = 0; round < 10; round++) {
    const product0 = 0xd2511f53n * c0;
    const product1 = 0xcd9e8d57n * c2;
    [c0, c1, c2, c3] = [
      (product1 >> 32n) ^ c1 ^ k0,
      product1 & mask,
      (product0 >> 32n) ^ c3 ^ k1,
      product0 & mask,
    ];
    k0 = (k0 + 0x9e3779b9n) & mask;
    k1 = (k1 + 0xbb67ae85n) & mask;
  }
  return [c0, c1, c2, c3].map(Number);
}
