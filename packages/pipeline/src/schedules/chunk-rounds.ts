import type { PipelineSchedule } from './pipeline-schedule.js';

/**
 * Returns for each chunk its place among the chunks of its rank, in the order of the model: 0 for the first.
 */
export function chunkRounds({ placement }: Pick<PipelineSchedule, 'placement'>): readonly number[] {
  const numSeen = new Map<number, number>();
  return placement.map((rank) => {
    const round = numSeen.get(rank) ?? 0;
    numSeen.set(rank, round + 1);
    return round;
  });
}
