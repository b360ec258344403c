/** Values of curves up to this part of them are shown. */
const shownPart = 0.98;
/** A curve is out of proportion where it is so many times above the lowest one. */
const mostTimes = 3;
const mostSpans = 5;
/** Limits that leave out no more than this part of the height leave out nothing. */
const leastCut = 0.15;
/** The lowest value of one far above the others is shown all the same, up to so many times the others. */
const mostTimesOfLeast = 30;

/** From what to where most values of curves are; undefined without values. */
export interface Limits {
  readonly least: number;
  readonly most: number;
}

/**
 * Limits that a few values far above, or a whole curve that left the others behind, do not move: the
 * greatest 98th percentile of those curves that are in proportion to the lowest one.
 */
export function typicalLimits(
  curves: readonly (readonly (number | null | undefined)[])[],
): Limits | undefined {
  const ranges = curves.map(rangeOf).filter((range) => range !== undefined);
  const lowest = ranges.toSorted((a, b) => a.most - b.most)[0];
  if (lowest === undefined) return undefined;
  const least = Math.min(...ranges.map((range) => range.least));
  const span = lowest.most - lowest.least;
  const mostInProportion = Math.max(lowest.most + mostSpans * span, mostTimes * lowest.most);
  const tops = ranges.flatMap((range) => {
    if (range.most <= mostInProportion) return [range.most];
    const isNear = range.least <= mostTimesOfLeast * lowest.most;
    return isNear ? [1.05 * range.least] : [];
  });
  const most = Math.max(lowest.most, ...tops);
  const greatest = Math.max(...ranges.map((range) => range.greatest));
  return { least, most: greatest - least <= (1 + leastCut) * (most - least) ? greatest : most };
}

function rangeOf(
  values: readonly (number | null | undefined)[],
): (Limits & { readonly greatest: number }) | undefined {
  const sorted = values.filter((value) => typeof value === 'number').sort((a, b) => a - b);
  if (sorted.length === 0) return undefined;
  const last = sorted.length < 20 ? sorted.length - 1 : Math.floor(shownPart * (sorted.length - 1));
  return { least: sorted[0]!, most: sorted[last]!, greatest: sorted.at(-1)! };
}
