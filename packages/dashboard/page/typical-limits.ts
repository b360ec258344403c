/** The fraction of a curve's values within its limit (98th percentile). */
const shownPart = 0.98;
/**
 * A curve is shown up to the 98th percentile of its values if this percentile is at most this many times the
 * limit of the median curve.
 */
const mostTimes = 3;
const mostSpans = 5;
/**
 * A higher curve is shown in part if the limit of this part is at most this many times the limit of the
 * median curve.
 */
const mostTimesOfPart = 30;
const mostSpansOfPart = 50;
/**
 * The fractions of a curve's values that may be shown if the curve is shown in part, the largest first. If a
 * curve must be visible, at least the smallest of these fractions is shown.
 */
const parts = [0.75, 0.5, 0.25] as const;
/** Limits that would hide at most this fraction of the height are not applied. */
const leastCut = 0.15;

type Curve = readonly (number | null | undefined)[];

/** Limits of most values of curves. */
export interface Limits {
  readonly least: number;
  readonly most: number;
}

/** The limits of one curve. */
interface Range extends Limits {
  readonly greatest: number;
  /** The limits of the curve for each fraction in the constant `parts`. */
  readonly parts: readonly number[];
  readonly isFocus: boolean;
}

/**
 * Returns limits that ignore a few values, or a few curves, far above the other values or curves.
 *
 * The focused curve and more than half of all curves are always visible: the limits include at least a
 * quarter of their values. The median curve sets the scale: curves up to a few times above it are shown to
 * their 98th percentile. Other curves are shown in part, unless even the part is far above the median curve.
 *
 * @param curves the values of each run
 * @param focus the index of the focused run
 */
export function typicalLimits(curves: readonly Curve[], focus?: number): Limits | undefined {
  const ranges = curves.flatMap((curve, index) => findRange(curve, index === focus) ?? []);
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

function findRange(values: Curve, isFocus: boolean): Range | undefined {
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
