import type { PipelineSchedule } from '../../src/schedules.js';

/** Times of passes that every chunk takes in full, where a number alone would count for a whole stage. */
export function ofEveryChunk<Times extends Readonly<Record<string, number>>>(
  { placement }: PipelineSchedule,
  times: Times,
): { readonly [Name in keyof Times]: readonly number[] } {
  const entries = Object.entries(times).map(([name, time]) => [name, placement.map(() => time)]);
  return Object.fromEntries(entries) as { readonly [Name in keyof Times]: readonly number[] };
}
