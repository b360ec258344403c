/** Lists names as a sentence does: `a`, `a and b`, `a, b and c`. */
export function listedNames(names: readonly string[]): string {
  return names.length < 2 ? names.join() : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`;
}
