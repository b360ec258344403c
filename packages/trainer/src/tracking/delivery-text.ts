import type { DeliveryResult } from './delivery.js';

/** What a service has, in one line; `directory` is the run folder. */
export function deliveryText({ sent, kept, problem, page }: DeliveryResult, directory: string): string {
  const where = page === undefined ? '' : `; ${page}`;
  const why = problem === undefined ? '' : ` (${problem})`;
  if (kept === 0) return `${sent.toLocaleString('en-US')} steps sent${why}${where}`;
  const counts = `${sent.toLocaleString('en-US')} steps sent, ${kept.toLocaleString('en-US')} kept`;
  return `${counts}${why}: mtl runs send ${directory}${where}`;
}
