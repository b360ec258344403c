import { ConfigurationError } from '@mtl/errors';
import { buildSchedule, oneStage, type PipelineSchedule } from '@mtl/pipeline/schedules';
import type { Layout } from './step-options.js';

/**
 * The schedule of a layout.
 *
 * @throws ConfigurationError `MTL_PLAN_LAYOUT` for one with halves of backward passes, of which there are no
 *   lists; the errors of `buildSchedule`
 */
export function scheduleOfLayout(layout: Layout): PipelineSchedule {
  const { pipelineParallelSize: numStages, numChunks = 1, microBatchSize, dataParallelSize } = layout;
  const numMicroBatches = layout.globalBatchSize / (microBatchSize * dataParallelSize);
  if (typeof layout.schedule === 'object') return withWholeBackward(layout.schedule);
  if (numStages === 1) return oneStage(numMicroBatches);
  const name = layout.schedule ?? (numChunks > 1 ? 'interleaved' : '1f1b');
  return withWholeBackward(buildSchedule(name, { numStages, numMicroBatches, numChunks }));
}

function withWholeBackward(schedule: PipelineSchedule): PipelineSchedule {
  const hasHalves = schedule.actions.some((actions) =>
    actions.some(({ kind }) => kind === 'I' || kind === 'W'),
  );
  if (!hasHalves) return schedule;
  throw new ConfigurationError(
    'MTL_PLAN_LAYOUT',
    `schedule ${schedule.name} has halves of backward passes, which the lists of other programs do not have`,
    { expected: 'gpipe, 1f1b, interleaved or breadth-first, or a profile whose operations are recorded' },
  );
}
