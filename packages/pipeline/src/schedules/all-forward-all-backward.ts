import { loopedPlacement } from './building-blocks.js';
import { checkSize, oneChunk } from './check-size.js';
import type { PipelineSchedule, ScheduleAction, ScheduleSize } from './pipeline-schedule.js';

/**
 * Builds GPipe's schedule: all forward passes, then all backward passes (Huang et al. 2019, arXiv 1811.06965;
 * Narayanan et al. 2021, section 2.2.1 and figure 3). The bubble is `(p - 1) / m`. When backward starts, the
 * activations of all m micro-batches are alive.
 *
 * @throws ConfigurationError the errors of `checkSize`; v must be 1
 */
export function gpipe(size: ScheduleSize): PipelineSchedule {
  return allForwardAllBackward('gpipe', checkSize('gpipe', { size, chunks: oneChunk }));
}

/**
 * Builds the looped breadth-first schedule (Lamy-Poirier 2022, arXiv 2211.05953, section 3). A rank runs all
 * micro-batches through a chunk before it starts its next chunk. Backward does the same, from the last chunk
 * to the first. The gradients of a chunk are complete after its backward passes, so their reduction can
 * overlap with the passes of the remaining chunks. When backward starts, all `v * m` activations are alive.
 * With p or more micro-batches, the bubble is the same as in the interleaved schedule.
 *
 * @throws ConfigurationError the errors of `checkSize`; v may be any value from 1 (the same schedule as
 * GPipe)
 */
export function breadthFirst(size: ScheduleSize): PipelineSchedule {
  return allForwardAllBackward(
    'breadth-first',
    checkSize('breadth-first', {
      size,
      chunks: { least: 1, most: Number.MAX_SAFE_INTEGER, remedy: 'pass a whole number' },
    }),
  );
}

/** Builds a schedule with all forward passes, then all backward passes, chunk after chunk. */
function allForwardAllBackward(
  name: string,
  size: { readonly numStages: number; readonly numMicroBatches: number; readonly numChunks: number },
): PipelineSchedule {
  const { numStages, numMicroBatches, numChunks } = size;
  const actions = Array.from({ length: numStages }, (_, rank) => {
    const chunks = Array.from({ length: numChunks }, (_, round) => round * numStages + rank);
    const sweep = (kind: 'F' | 'B', chunk: number): ScheduleAction[] =>
      Array.from({ length: numMicroBatches }, (_, microBatch) => ({ kind, chunk, microBatch }));
    return [
      ...chunks.flatMap((chunk) => sweep('F', chunk)),
      ...chunks.toReversed().flatMap((chunk) => sweep('B', chunk)),
    ];
  });
  return { name, numMicroBatches, placement: loopedPlacement({ numStages, numChunks }), actions };
}
