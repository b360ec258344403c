import { ConfigurationError } from '@mtl/errors';
import { buildSchedule, oneStage, type PipelineSchedule, parseScheduleCsv } from '@mtl/pipeline/schedules';
import type { ParallelConfiguration } from '../pretraining-configuration.js';

/** What a schedule follows from. */
export type ScheduleConfiguration = Pick<
  ParallelConfiguration,
  | 'pipelineModelParallelSize'
  | 'numVirtualStages'
  | 'pipelineSchedule'
  | 'pipelineScheduleCsv'
  | 'microBatchGroupSize'
>;

/**
 * The order of a step of so many micro-batches on one pipeline; its placement is the same for all of them.
 *
 * @throws ConfigurationError those of the schedules (see `buildSchedule`), `MTL_SCHEDULE_CSV` where a file is
 *   for another number of stages or micro-batches
 */
export function pipelineSchedule(parallel: ScheduleConfiguration, numMicroBatches: number): PipelineSchedule {
  const { pipelineModelParallelSize: numStages, pipelineSchedule: name, pipelineScheduleCsv } = parallel;
  if (numStages === 1) return oneStage(numMicroBatches);
  if (pipelineScheduleCsv === undefined) {
    return buildSchedule(name, {
      ...{ numStages, numMicroBatches },
      numChunks: parallel.numVirtualStages,
      microBatchGroupSize: parallel.microBatchGroupSize,
    });
  }
  const schedule = parseScheduleCsv(pipelineScheduleCsv, { name });
  const counts = [
    { what: 'stages', has: schedule.actions.length, asked: numStages },
    { what: 'micro-batches a step', has: schedule.numMicroBatches, asked: numMicroBatches },
  ];
  for (const { what, has, asked } of counts) {
    if (has === asked) continue;
    throw new ConfigurationError('MTL_SCHEDULE_CSV', `${name} is for ${has} ${what}, this run has ${asked}`, {
      expected: `${has} ${what}, or a schedule for ${asked}`,
      details: { name, what, has, asked },
    });
  }
  return schedule;
}
