/**
 * Returns the smallest number of edits that turn `a` into `b`. An edit inserts, deletes or replaces a letter,
 * or exchanges two neighbours.
 */
function editDistance(a: string, b: string): number {
  let beforePrevious: readonly number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const replaced = previous[column - 1]! + (a[row - 1] === b[column - 1] ? 0 : 1);
      const areExchanged =
        row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      const exchanged = areExchanged ? beforePrevious[column - 2]! + 1 : Number.POSITIVE_INFINITY;
      current.push(Math.min(replaced, exchanged, previous[column]! + 1, current[column - 1]! + 1));
    }
    beforePrevious = previous;
    previous = current;
  }
  return previous[b.length]!;
}

/**
 * Returns the name in `known` that `name` most likely means: the name with the fewest edits, or else the
 * shortest name that begins with `name`. Returns undefined if no name is close.
 */
export function nearestName(name: string, known: Iterable<string>): string | undefined {
  const given = name.toLowerCase();
  let best: string | undefined;
  // two edits could turn a word of three letters into almost any word, so only one edit is allowed
  let bestDistance = (name.length <= 3 ? 1 : Math.max(2, Math.floor(name.length / 3))) + 1;
  let longer: string | undefined;
  for (const candidate of known) {
    const lower = candidate.toLowerCase();
    const distance = editDistance(given, lower);
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
    const isLonger = given.length >= 3 && lower.startsWith(given);
    if (isLonger && candidate.length < (longer?.length ?? Number.POSITIVE_INFINITY)) longer = candidate;
  }
  return best ?? longer;
}

/**
 * The largest value that is tried as a divisor. It suffices to find all divisors of a number up to 2^40. A
 * larger number is probably an error, and its message needs only some of the divisors.
 */
const mostTrials = 2 ** 20;

/**
 * Returns the two divisors of `total` that are nearest to `value`, one below and one above. If `value` is a
 * divisor, it is the only result.
 */
export function nearestDivisors(total: number, value: number): readonly number[] {
  const divisors = new Set<number>();
  for (let low = 1; low * low <= total && low <= mostTrials; low++) {
    if (total % low === 0) divisors.add(low).add(total / low);
  }
  if (divisors.has(value)) return [value];
  const below = Math.max(...[...divisors].filter((divisor) => divisor < value));
  const above = Math.min(...[...divisors].filter((divisor) => divisor > value));
  return [below, above].filter(Number.isFinite);
}

/**
 * Returns the two positive multiples of `unit` that are nearest to `value`, one below and one above. If
 * `value` is a multiple, it is the only result.
 */
export function nearestMultiples(unit: number, value: number): readonly number[] {
  const below = Math.floor(value / unit) * unit;
  if (below === value) return [value];
  return [below, below + unit].filter((multiple) => multiple > 0);
}

/** Joins the given names as in a sentence: `a`, `a and b`, `a, b and c`. */
export function listedNames(names: readonly string[]): string {
  return names.length < 2 ? names.join() : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`;
}
