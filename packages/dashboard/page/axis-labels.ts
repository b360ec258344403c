import type { Axis } from '../src/api-types.js';
import { formatCount, formatNumber, formatSeconds } from './format.js';

/** Possible distances between marks on an axis of seconds. */
const secondSteps = [
  ...[0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800],
  ...[1, 2, 3, 6, 12, 24, 48, 96, 192, 384, 768].map((hours) => 3600 * hours),
];

/** Possible distances between marks on an axis of steps or counts: 1, 2, 5, 10 and so on. */
const countSteps = Array.from(
  { length: 40 },
  (_, index) => [1, 2, 5][index % 3]! * 10 ** Math.floor(index / 3),
);

export const stepsOfAxis = (axis: Axis): number[] => (axis === 'seconds' ? secondSteps : countSteps);

/** Returns the label for a mark at `value` on the axis. */
export function formatMark(axis: Axis, value: number, greatest: number): string {
  if (axis === 'tokens') return formatCount(value);
  if (axis === 'iteration') return greatest >= 1e5 ? formatCount(value) : formatNumber(value);
  if (greatest >= 7200) return `${formatNumber(value / 3600)} h`;
  return greatest >= 120 ? `${formatNumber(value / 60)} min` : `${formatNumber(value)} s`;
}

/** Returns a position on the axis as a string, such as "step 1,200". */
export function formatPlace(axis: Axis, value: number): string {
  if (axis === 'iteration') return `step ${formatNumber(value)}`;
  return axis === 'tokens' ? `${formatCount(value)} tokens` : formatSeconds(value);
}
