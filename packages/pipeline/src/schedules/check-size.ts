import { ConfigurationError } from '@mtl/errors';
import type { ScheduleSize } from './pipeline-schedule.js';

/** A complete schedule size whose values are all in range. */
interface CheckedSize {
  readonly numStages: number;
  readonly numMicroBatches: number;
  readonly numChunks: number;
}

/** The range of v (the number of chunks per rank) that a schedule supports. */
interface ChunkRange {
  readonly least: number;
  readonly most: number;
  /** The remedy for a value that is out of range. It names a schedule that supports this value. */
  readonly remedy: string;
}

/** The range for schedules with one chunk per rank. */
export const oneChunk: ChunkRange = {
  least: 1,
  most: 1,
  remedy:
    'interleaved and breadth-first are the schedules for several chunks per rank, zb-v is the schedule for two',
};

/**
 * Checks the size requirements that all schedules share.
 *
 * @throws ConfigurationError `MTL_SCHEDULE_STAGES`, `MTL_SCHEDULE_MICRO_BATCHES`, `MTL_SCHEDULE_CHUNKS` or
 *   `MTL_SCHEDULE_GROUP_SIZE`
 */
export function checkSize(
  name: string,
  options: { readonly size: ScheduleSize; readonly chunks: ChunkRange; readonly hasGroups?: true },
): CheckedSize {
  const { size, chunks, hasGroups = false } = options;
  const { numStages, numMicroBatches, numChunks = chunks.least, microBatchGroupSize } = size;
  if (!Number.isSafeInteger(numStages) || numStages < 2) {
    throw new ConfigurationError('MTL_SCHEDULE_STAGES', `${name}: ${numStages} stages are no pipeline`, {
      expected: `${nearestWhole(numStages, { least: 2 })} stages, or any larger number`,
      details: { name, numStages, nearest: [nearestWhole(numStages, { least: 2 })] },
    });
  }
  if (!Number.isSafeInteger(numMicroBatches) || numMicroBatches < 1) {
    throw new ConfigurationError(
      'MTL_SCHEDULE_MICRO_BATCHES',
      `${name}: a step cannot have ${numMicroBatches} micro-batches`,
      {
        expected: `${nearestWhole(numMicroBatches, { least: 1 })}, or any larger number`,
        details: { name, numMicroBatches, nearest: [nearestWhole(numMicroBatches, { least: 1 })] },
      },
    );
  }
  if (!Number.isSafeInteger(numChunks) || numChunks < chunks.least || numChunks > chunks.most) {
    const nearest = nearestWhole(numChunks, chunks);
    throw new ConfigurationError(
      'MTL_SCHEDULE_CHUNKS',
      `${name}: a rank cannot hold ${numChunks} ${numChunks === 1 ? 'chunk' : 'chunks'} of the model`,
      {
        expected: chunks.least === chunks.most ? `${nearest}` : `${nearest}, or any larger number`,
        remedy: chunks.remedy,
        details: { name, numChunks, nearest: [nearest] },
      },
    );
  }
  if (microBatchGroupSize !== undefined && !hasGroups) {
    throw new ConfigurationError(
      'MTL_SCHEDULE_GROUP_SIZE',
      `${name} has no micro-batch groups, so their size cannot be ${microBatchGroupSize}`,
      { expected: 'no group size', remedy: 'leave it out, or choose the interleaved schedule' },
    );
  }
  return { numStages, numMicroBatches, numChunks };
}

function nearestWhole(
  value: number | undefined,
  { least, most = Number.MAX_SAFE_INTEGER }: { least: number; most?: number },
) {
  if (value === undefined || Number.isNaN(value)) return least;
  return Math.min(most, Math.max(least, Math.round(value)));
}
