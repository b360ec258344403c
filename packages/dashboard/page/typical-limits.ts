/** Values of curves up to this part of them are shown. */
const shownPart = 0.98;
/**
 * A curve is shown up to that part where its top is at most so many times the top of the curve in the middle.
 */
const mostTimes = 3;
const mostSpans = 5;
/** At least a part of one above these limits is shown, where that part is at most so many times that top. */
const mostTimesOfPart = 30;
const mostSpansOfPart = 50;
/**
 * From the largest: the parts of such a curve that may be shown. The last one is always shown of those in
 * sight.
 */
const parts = [0.75, 0.5, 0.25] as const;
/** Limits that leave out no more than this part of the height leave out nothing. */
const leastCut = 0.15;

type Curve = readonly (number | null | undefined)[];

/** From what to where most values of curves are; undefined without values. */
export interface Limits {
  readonly least: number;
  readonly most: number;
}

/** A curve by its values. */
interface Range extends Limits {
  readonly greatest: number;
  /** Where `parts` of its values end. */
  readonly parts: readonly number[];
  readonly isFocus: boolean;
}

/**
 * Returns limits that a few values far above, or a few curves that left the others behind, do not move.
 *
 * More than half of the curves and the focused one are always in sight, which means that the limits hold a
 * quarter of their values or more. The proportion is that of the curve in the middle: those up to a few times
 * above it are shown to their 98th percentile. Others are shown in part, unless even that is far above it.
 *
 * @param curves the values of each run
 * @param focus the index of the focused run
 */
export function typicalLimits(curves: readonly Curve[], focus?: number): Limits | undefined {
  const ranges = curves.flatMap((curve, index) => rangeOf(curve, index === focus) ?? []);
  if (ranges.length === 0) return undefined;
  const middle = ranges.toSorted((a, b) => a.most - b.most)[Math.ceil(ranges.length / 2) - 1]!;
  const least = Math.min(...ranges.map((range) => range.least));
  const span = middle.most - middle.least;
  const inFull = Math.max(middle.most + mostSpans * span, mostTimes * middle.most);
  const inPart = Math.max(middle.most + mostSpansOfPart * span, mostTimesOfPart * middle.most);
  const tops = ranges.flatMap((range) => {
    if (range.most <= (range.isFocus ? inPart : inFull)) return [range.most];
    const part =
      range.parts.find((value) => value <= inPart) ?? (range.isFocus ? lowestPart(range) : undefined);
    return part === undefined ? [] : [part];
  });
  const ofMajority = ranges.map(lowestPart).sort((a, b) => a - b)[Math.floor(ranges.length / 2)]!;
  const most = Math.max(middle.most, ofMajority, ...tops);
  const greatest = Math.max(...ranges.map((range) => range.greatest));
  return { least, most: greatest - least <= (1 + leastCut) * (most - least) ? greatest : most };
}

const lowestPart = (range: Range): number => range.parts.at(-1)!;

function rangeOf(values: Curve, isFocus: boolean): Range | undefined {
  const sorted = values.filter((value) => typeof value === 'number').sort((a, b) => a - b);
  if (sorted.length === 0) return undefined;
  const end = sorted.length - 1;
  return {
    least: sorted[0]!,
    most: sorted[sorted.length < 20 ? end : Math.floor(shownPart * end)]!,
    greatest: sorted[end]!,
    parts: parts.map((part) => sorted[Math.ceil(part * end)]!),
    isFocus,
  };
}
