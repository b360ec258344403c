import type { PipelineSchedule } from '../../src/schedules.js';

/**
 * Turns the duration of a pass into a list with this duration for each chunk; a number alone would be divided
 * over the chunks of a stage.
 */
export function ofEveryChunk<Times extends Readonly<Record<string, number>>>(
  { placement }: PipelineSchedule,
  times: Times,
): { readonly [Name in keyof Times]: readonly number[] } {
  const entries = Object.entries(times).map(([name, time]) => [name, placement.map(() => time)]);
  return Object.fromEntries(entries) as { readonly [Name in keyof Times]: readonly number[] };
}
