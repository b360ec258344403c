/** The divisors of `size` next below and above `wanted`. */
export function nearestDivisors(size: number, wanted: number): number[] {
  const divisors = Array.from({ length: size }, (_, index) => index + 1).filter((n) => size % n === 0);
  const below = divisors.filter((n) => n < wanted).at(-1);
  const above = divisors.find((n) => n > wanted);
  return [below, above].filter((n) => n !== undefined);
}
