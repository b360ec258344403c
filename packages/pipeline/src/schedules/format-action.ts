import type { ScheduleAction } from './pipeline-schedule.js';

/**
 * Formats an action as schedule files and messages write it, chunk, kind, micro-batch: `3F0` is micro-batch 0
 * forward on chunk 3.
 */
export function formatAction({ chunk, kind, microBatch }: ScheduleAction): string {
  return `${chunk}${kind}${microBatch}`;
}
