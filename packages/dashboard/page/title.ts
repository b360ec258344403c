import type { RunSummary } from '../src/api-types.js';
import { trainingLoss } from './chart-kinds.js';
import { formatNumber } from './format.js';

const ofPage = 'mtl watch';

/** Returns the title of the browser's tab, which begins with the progress of the focused run. */
export function formatTitle(run: RunSummary | undefined): string {
  if (run === undefined) return ofPage;
  const { id, state, iteration, loss } = run;
  // the most important facts come first, because a tab shows about twenty letters
  const end = ['running', 'unknown'].includes(state) ? '' : `${state}, `;
  const figures = loss === null ? '' : `: ${formatNumber(loss)} ${trainingLoss.toLowerCase()}`;
  return `${end}step ${formatNumber(iteration)}${figures} · ${id} · ${ofPage}`;
}
