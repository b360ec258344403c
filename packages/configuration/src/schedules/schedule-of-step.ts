import { ConfigurationError } from '@mtl/errors';
import { buildSchedule, oneStage, type PipelineSchedule, parseScheduleCsv } from '@mtl/pipeline/schedules';
import type { ParallelConfiguration } from '../pretraining-configuration.js';
import { loadScheduleModule } from './load-schedule-module.js';

/** What a schedule follows from. */
export type ScheduleConfiguration = Pick<
  ParallelConfiguration,
  | 'pipelineModelParallelSize'
  | 'numVirtualStages'
  | 'pipelineSchedule'
  | 'pipelineScheduleCsv'
  | 'pipelineScheduleModule'
  | 'microBatchGroupSize'
>;

/** Schedules that were built, by configuration and number of micro-batches: many ranks of one dry run ask. */
const built = new WeakMap<ScheduleConfiguration, Map<number, PipelineSchedule>>();

/**
 * The order of a step of so many micro-batches on one pipeline; its placement is the same for all of them.
 *
 * @throws ConfigurationError those of the schedules (see `buildSchedule`) and of modules (see
 *   `loadScheduleModule`), `MTL_SCHEDULE_CSV` where a file is for another number of stages or micro-batches
 */
export function scheduleOfStep(parallel: ScheduleConfiguration, numMicroBatches: number): PipelineSchedule {
  const known = built.get(parallel) ?? new Map<number, PipelineSchedule>();
  const schedule = known.get(numMicroBatches) ?? buildStep(parallel, numMicroBatches);
  built.set(parallel, known.set(numMicroBatches, schedule));
  return schedule;
}

function buildStep(parallel: ScheduleConfiguration, numMicroBatches: number): PipelineSchedule {
  const { pipelineModelParallelSize: numStages, pipelineSchedule: name, pipelineScheduleCsv } = parallel;
  if (numStages === 1) return oneStage(numMicroBatches);
  if (pipelineScheduleCsv === undefined) {
    const size = {
      numStages,
      numMicroBatches,
      numChunks: parallel.numVirtualStages,
      microBatchGroupSize: parallel.microBatchGroupSize,
    };
    const { pipelineScheduleModule: path } = parallel;
    return path === undefined ? buildSchedule(name, size) : loadScheduleModule(path)(size);
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
