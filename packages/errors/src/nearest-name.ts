/** Edits (insert, delete, replace, exchange two neighbours) that turn `a` into `b`. */
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
 * Returns the name in `known` that `name` most likely meant, or undefined when nothing is close: the one with
 * the fewest edits, or else the shortest that begins with it.
 */
export function nearestName(name: string, known: Iterable<string>): string | undefined {
  const given = name.toLowerCase();
  let best: string | undefined;
  // two edits of three letters leave another word
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
