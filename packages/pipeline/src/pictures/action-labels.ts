import { chunkRounds, type PipelineSchedule, type ScheduleAction } from '../schedules/pipeline-schedule.js';

/**
 * Returns a function that formats an action of the schedule for people, such as `B3`. With several chunks per
 * rank, the label is `B3a` for the rank's first chunk and `B3b` for its second. After the 26 letters, the
 * index is appended, as in `B3:26`.
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
