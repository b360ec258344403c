/** The number of steps over which losses are averaged, because the loss of a single batch varies much. */
export const window = 50;

/**
 * Returns the outcome of a run: `isWhole` (true if all steps have a finite loss), the last loss, and the
 * largest rise above the lowest earlier loss. Losses are averaged over `window` steps.
 * @param {{ readonly losses: readonly number[], readonly numSteps: number }} run
 * @returns {{ readonly isWhole: boolean, readonly last: number, readonly rise: number }}
 */
export function runOutcome({ losses, numSteps }) {
  const points = smoothed(losses);
  const last = points.at(-1)?.loss ?? Number.NaN;
  const isWhole = losses.length === numSteps && losses.every(Number.isFinite);
  return { isWhole, last, rise: largestRise(points) };
}

/**
 * Returns moving averages over `window` losses, five per window.
 * @param {readonly number[]} losses
 * @returns {{ step: number, loss: number }[]}
 */
export function smoothed(losses) {
  const points = [];
  for (let step = window; step <= losses.length; step += window / 5) {
    const some = losses.slice(step - window, step);
    points.push({ step, loss: some.reduce((sum, loss) => sum + loss, 0) / window });
  }
  return points;
}

/** Returns the largest rise of a curve above its lowest earlier point. */
function largestRise(points) {
  let [lowest, rise] = [Number.POSITIVE_INFINITY, 0];
  for (const { loss } of points) {
    lowest = Math.min(lowest, loss);
    rise = Math.max(rise, loss - lowest);
  }
  return rise;
}
