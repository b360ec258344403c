import type uPlot from 'uplot';
import type { MarkKind, MarkOfRun } from '../src/api-types.js';

/** The height in pixels of the rail of marks between the plot and the labels of the axis. */
export const railHeight = 14;

/** Marks that are closer together than this number of pixels are drawn as one group with their count. */
const ownWidth = 16;

/** The marks of one group on the rail. */
export interface MarkGroup {
  readonly marks: readonly MarkOfRun[];
  /** The position of the group's middle from the left edge of the plot, in pixels. */
  readonly left: number;
}

/**
 * Kinds of marks, in the order of increasing severity. The most severe mark of a group determines its colour.
 */
export const gravity: readonly MarkKind[] = [
  ...(['reported', 'checkpoint', 'event', 'skipped', 'spike', 'restart', 'rollback', 'error'] as const),
];

export function findGravest(marks: readonly MarkOfRun[]): MarkOfRun {
  return marks.reduce((one, other) =>
    gravity.indexOf(other.kind) > gravity.indexOf(one.kind) ? other : one,
  );
}

/** Returns the groups of marks within the plot; close marks form one group. */
export function groupMarks(plot: uPlot, marks: readonly MarkOfRun[]): readonly MarkGroup[] {
  const { min, max } = plot.scales.x!;
  if (min == null || max == null) return [];
  const groups: { first: number; marks: MarkOfRun[] }[] = [];
  for (const mark of marks) {
    if (mark.x < min || mark.x > max) continue;
    const left = plot.valToPos(mark.x, 'x');
    const last = groups.at(-1);
    if (last !== undefined && left - last.first < ownWidth) last.marks.push(mark);
    else groups.push({ first: left, marks: [mark] });
  }
  let before = -Infinity;
  return groups.map(({ marks: all }) => {
    const [first, last] = [all[0]!, all.at(-1)!].map(({ x }) => plot.valToPos(x, 'x')) as [number, number];
    // the group is placed at the middle of its marks, or directly after the previous group if this position
    // is further to the right; the group thus moves by at most half a width
    const left = Math.max((first + last) / 2, before + ownWidth);
    before = all.length === 1 ? -Infinity : left;
    return { marks: all, left: all.length === 1 ? first : left };
  });
}

/**
 * Draws groups of marks between the plot and the labels of the axis: a tick for one mark, the count for
 * several.
 */
export function drawRail({ ctx, bbox }: uPlot, groups: readonly MarkGroup[]): void {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string): string => style.getPropertyValue(name);
  const scale = devicePixelRatio;
  const top = bbox.top + bbox.height + 2 * scale;
  ctx.save();
  ctx.font = `600 ${9 * scale}px system-ui, sans-serif`;
  ctx.textAlign = 'center';
  ctx.textBaseline = 'middle';
  for (const { marks, left } of groups) {
    const { kind } = findGravest(marks);
    const at = Math.round(bbox.left + left * scale);
    ctx.fillStyle = colour(`--mark-${kind}`);
    const size = (railHeight - 2) * scale;
    if (marks.length === 1) {
      const width = (kind === 'checkpoint' ? 2 : 3) * scale;
      ctx.fillRect(at - Math.floor(width / 2), top, width, kind === 'checkpoint' ? size * 0.6 : size * 0.8);
      continue;
    }
    const width = (ownWidth - 1) * scale;
    ctx.beginPath();
    ctx.roundRect(at - width / 2, top, width, size, 3 * scale);
    ctx.fill();
    ctx.fillStyle = colour('--surface');
    ctx.fillText(marks.length > 99 ? '99+' : String(marks.length), at, top + size / 2 + scale / 2, width);
  }
  ctx.restore();
}
