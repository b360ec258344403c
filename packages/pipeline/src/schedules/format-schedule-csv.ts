import { formatAction } from './format-action.js';
import type { PipelineSchedule } from './pipeline-schedule.js';

/**
 * The schedule as a file that `parseScheduleCsv` reads: a line per rank, its actions in order, separated by
 * commas.
 */
export function formatScheduleCsv({ actions }: PipelineSchedule): string {
  return actions.map((order) => `${order.map(formatAction).join(',')}\n`).join('');
}
