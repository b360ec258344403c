import type { PipelineSchedule, ScheduleAction } from './pipeline-schedule.js';

/**
 * Builds the order of a model in one stage: forward and backward of each micro-batch in turn, so that the
 * activations of one are alive.
 */
export function oneStage(numMicroBatches: number): PipelineSchedule {
  const actions = Array.from({ length: numMicroBatches }, (_, microBatch): ScheduleAction[] => [
    { kind: 'F', chunk: 0, microBatch },
    { kind: 'B', chunk: 0, microBatch },
  ]).flat();
  return { name: 'one stage', numMicroBatches, placement: [0], actions: [actions] };
}
