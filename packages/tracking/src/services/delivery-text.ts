import type { DeliveryResult } from './delivery.js';

/** What a service has, in one line; `directory` is the run folder. */
export function deliveryText(result: DeliveryResult, directory: string): string {
  const { sent, kept, isEnded, problem, page } = result;
  const where = page === undefined ? '' : `; ${page}`;
  const why = problem === undefined ? '' : ` (${problem})`;
  const all = `${sent.toLocaleString('en-US')} steps sent`;
  if (kept === 0 && isEnded) return `${all}${why}${where}`;
  const counts =
    kept === 0 ? `${all}, not that the run ended` : `${all}, ${kept.toLocaleString('en-US')} kept`;
  return `${counts}${why}: mtl runs send ${directory}${where}`;
}
