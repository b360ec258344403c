import type uPlot from 'uplot';
import type { RunMark } from './marks-of-shown.js';

/** Draws the lines of what happened, from the top to the bottom of a plot, below its curves. */
export function drawMarks({ ctx, bbox, scales, valToPos }: uPlot, marks: readonly RunMark[]): void {
  const { min, max } = scales.x!;
  if (min == null || max == null) return;
  const style = getComputedStyle(document.documentElement);
  ctx.save();
  ctx.lineWidth = 1;
  for (const { x, kind } of marks) {
    if (x < min || x > max) continue;
    // in the middle of a pixel, so that it covers one
    const left = Math.floor(valToPos(x, 'x', true)) + 0.5;
    ctx.strokeStyle = style.getPropertyValue(`--mark-${kind}`);
    ctx.setLineDash(kind === 'checkpoint' ? [2, 4] : []);
    ctx.beginPath();
    ctx.moveTo(left, bbox.top);
    ctx.lineTo(left, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}
