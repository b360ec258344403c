import { loopedPlacement } from './building-blocks.js';
import { checkSize, oneChunk } from './check-size.js';
import type { PipelineSchedule, ScheduleAction, ScheduleSize } from './pipeline-schedule.js';

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

/**
 * Builds the looped breadth-first schedule: a rank runs all micro-batches through one chunk before it turns
 * to its next, backward in the same manner from the last chunk to the first (Lamy-Poirier 2022, arXiv
 * 2211.05953, section 3). Each chunk's gradients are ready at once, so that their reduction overlaps with the
 * other chunks; the activations of all v m are alive at the turn. From p micro-batches on its bubble is the
 * interleaved schedule's.
 *
 * @throws ConfigurationError see `checkSize`; v is any number from 1 (where it is GPipe)
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

/** Builds a schedule of all forward passes, then all backward passes, chunk after chunk. */
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
