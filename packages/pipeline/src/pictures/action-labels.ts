import { chunkRounds, type PipelineSchedule, type ScheduleAction } from '../schedules/pipeline-schedule.js';

/**
 * Returns a function that names the actions of a schedule for people: `B3`, or with several chunks on a rank
 * `B3a` on its first chunk and `B3b` on its second (beyond the alphabet `B3:26`).
 */
export function actionLabels(schedule: PipelineSchedule): (action: ScheduleAction) => string {
  const rounds = chunkRounds(schedule);
  const isChunked = rounds.some((round) => round > 0);
  return ({ kind, chunk, microBatch }) => {
    const round = rounds[chunk]!;
    const suffix = round < 26 ? String.fromCharCode('a'.charCodeAt(0) + round) : `:${round}`;
    return `${kind}${microBatch}${isChunked ? suffix : ''}`;
  };
}
