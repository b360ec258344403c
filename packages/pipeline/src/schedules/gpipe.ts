import { allForwardAllBackward } from './breadth-first.js';
import { checkSize, oneChunk } from './check-size.js';
import type { PipelineSchedule, ScheduleSize } from './pipeline-schedule.js';

/**
 * Builds GPipe's schedule: all forward passes, then all backward passes (Huang et al. 2019, arXiv 1811.06965;
 * Narayanan et al. 2021, section 2.2.1 and figure 3). Bubble (p-1)/m; the activations of all m micro-batches
 * are alive at the turn.
 *
 * @throws ConfigurationError see `checkSize`; v must be 1
 */
export function gpipe(size: ScheduleSize): PipelineSchedule {
  return allForwardAllBackward('gpipe', checkSize('gpipe', { size, chunks: oneChunk }));
}
