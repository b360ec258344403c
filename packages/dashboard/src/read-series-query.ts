import type { Axis } from './api-types.js';
import { HttpProblem } from './http-problem.js';
import type { SeriesQuery } from './run-index.js';

const axes: readonly Axis[] = ['iteration', 'tokens', 'seconds'];
const mostNames = 64;

/**
 * The curves that a request asks for: `names` (separated by commas), `axis`, `from`, `to`, `points`,
 * `smoothing`, `bands` (the names of curves to be shown as a median with a band).
 *
 * @throws HttpProblem 400
 */
export function readSeriesQuery(query: URLSearchParams): readonly SeriesQuery[] {
  const names = (query.get('names') ?? '').split(',').filter((name) => name !== '');
  if (names.length === 0 || names.length > mostNames) {
    throw new HttpProblem(400, `names: ${names.length} curves; expected 1 to ${mostNames}`);
  }
  const axis = axes.find((name) => name === (query.get('axis') ?? 'iteration'));
  if (axis === undefined) throw new HttpProblem(400, `axis: expected one of ${axes.join(', ')}`);
  const numPoints = numberIn(query, 'points', { least: 10, most: 20_000 }) ?? 1000;
  const smoothing = numberIn(query, 'smoothing', { least: 0, most: 0.9999 }) ?? 0;
  const [from, to] = [numberIn(query, 'from'), numberIn(query, 'to')];
  const bands = new Set((query.get('bands') ?? '').split(','));
  return names.map((name) => ({ name, axis, from, to, numPoints, smoothing, isBand: bands.has(name) }));
}

function numberIn(
  query: URLSearchParams,
  name: string,
  { least = -Number.MAX_VALUE, most = Number.MAX_VALUE } = {},
): number | undefined {
  const text = query.get(name);
  if (text === null) return undefined;
  const value = text.trim() === '' ? Number.NaN : Number(text);
  if (value >= least && value <= most) return value;
  throw new HttpProblem(400, `${name}: ${text}; expected a number from ${least} to ${most}`);
}
