import { ConfigurationError } from '@mtl/errors';
import { forwardThenPairs, loopedPlacement } from './building-blocks.js';
import { checkSize } from './check-size.js';
import type { PipelineSchedule, ScheduleAction, ScheduleSize } from './pipeline-schedule.js';

/**
 * The forward or backward pass of a micro-batch on a chunk. `round` is the chunk's index among its rank's
 * chunks.
 */
interface Visit {
  readonly microBatch: number;
  readonly round: number;
}

/**
 * Builds interleaved 1F1B in the order of Megatron-LM (Narayanan et al. 2021, section 2.2.2 and figure 4,
 * bottom). The group size N is Megatron-Core's `microbatch_group_size_per_vp_stage`. Groups of N
 * micro-batches go through the chunks of a rank. The last group may be smaller. The bubble is `(p - 1) / (v *
 * m)`. Rank r holds at most `2 * (p - r - 1) + (v - 1) * N + 1` live chunk activations.
 *
 * @throws ConfigurationError the errors of `checkSize`, where v must be 2 or more; `MTL_SCHEDULE_GROUP_SIZE`
 * or
 *   `MTL_SCHEDULE_MICRO_BATCHES` unless p <= N <= m, and m mod N is 0 or at least p
 */
export function interleaved(size: ScheduleSize): PipelineSchedule {
  const { numStages, numMicroBatches, numChunks } = checkSize('interleaved', {
    size,
    hasGroups: true,
    chunks: {
      least: 2,
      most: Number.MAX_SAFE_INTEGER,
      remedy: 'with one chunk per rank choose 1f1b',
    },
  });
  const groupSize = size.microBatchGroupSize ?? numStages;
  checkGroups({ numStages, numMicroBatches, groupSize });
  const visits = visitOrder({ numMicroBatches, numChunks, groupSize });
  const actions = Array.from({ length: numStages }, (_, rank) => {
    const forward = ({ microBatch, round }: Visit): ScheduleAction => {
      return { kind: 'F', chunk: round * numStages + rank, microBatch };
    };
    const backward = ({ microBatch, round }: Visit): ScheduleAction => {
      return { kind: 'B', chunk: (numChunks - 1 - round) * numStages + rank, microBatch };
    };
    const numWarmUp = 2 * (numStages - rank - 1) + (numChunks - 1) * groupSize;
    return forwardThenPairs({
      numPasses: visits.length,
      numWarmUp,
      forward: (pass) => forward(visits[pass]!),
      backward: (pass) => [backward(visits[pass]!)],
    });
  });
  return {
    name: 'interleaved',
    numMicroBatches,
    placement: loopedPlacement({ numStages, numChunks }),
    actions,
  };
}

/**
 * Returns the order in which a rank runs its chunks and micro-batches: group by group, within a group chunk
 * by chunk, and on each chunk all micro-batches of the group.
 */
function visitOrder(options: {
  readonly numMicroBatches: number;
  readonly numChunks: number;
  readonly groupSize: number;
}): Visit[] {
  const { numMicroBatches, numChunks, groupSize } = options;
  const visits: Visit[] = [];
  for (let first = 0; first < numMicroBatches; first += groupSize) {
    const end = Math.min(first + groupSize, numMicroBatches);
    for (let round = 0; round < numChunks; round++) {
      for (let microBatch = first; microBatch < end; microBatch++) visits.push({ microBatch, round });
    }
  }
  return visits;
}

interface Groups {
  readonly numStages: number;
  readonly numMicroBatches: number;
  readonly groupSize: number;
}

/**
 * Returns true if every group, including a smaller last group, has enough micro-batches to fill the pipeline.
 * In a group that is too small, a rank would wait because its next chunk has not yet received its input.
 */
function fits({ numStages, numMicroBatches, groupSize }: Groups): boolean {
  const rest = numMicroBatches % groupSize;
  return groupSize >= numStages && groupSize <= numMicroBatches && (rest === 0 || rest >= numStages);
}

function checkGroups(groups: Groups): void {
  const { numStages, numMicroBatches, groupSize } = groups;
  if (!Number.isSafeInteger(groupSize) || groupSize < numStages) {
    throw new ConfigurationError(
      'MTL_SCHEDULE_GROUP_SIZE',
      `interleaved: groups of ${groupSize} micro-batches do not fill ${numStages} stages`,
      { expected: `${numStages} or more`, details: { ...groups, nearest: [numStages] } },
    );
  }
  if (fits(groups)) return;
  const nearest = nearestFitting(numMicroBatches, {
    limit: Math.ceil(numMicroBatches / groupSize) * groupSize,
    isFit: (count) => fits({ ...groups, numMicroBatches: count }),
  });
  const otherGroups = nearestFitting(groupSize, {
    limit: numMicroBatches,
    isFit: (count) => fits({ ...groups, groupSize: count }),
  });
  const rest =
    numMicroBatches < groupSize ? 'do not fill one group' : `leave ${numMicroBatches % groupSize} over`;
  throw new ConfigurationError(
    'MTL_SCHEDULE_MICRO_BATCHES',
    `interleaved: ${numMicroBatches} micro-batches in groups of ${groupSize} ${rest}, on ${numStages} stages`,
    {
      expected: `${nearest.join(' or ')} micro-batches`,
      remedy:
        'change --global-batch-size: micro-batches times --micro-batch-size times the data-parallel size' +
        (otherGroups.length === 0
          ? ''
          : `; or pass --microbatch-group-size-per-virtual-pipeline-stage ${otherGroups.join(' or ')}`),
      details: { ...groups, nearest, nearestGroupSizes: otherGroups },
    },
  );
}

/** Returns the nearest valid values below and above `value`, up to `limit`, if they exist. */
function nearestFitting(
  value: number,
  { limit, isFit }: { readonly limit: number; readonly isFit: (candidate: number) => boolean },
): number[] {
  const found: number[] = [];
  for (let below = value - 1; below >= 1 && found.length === 0; below--) if (isFit(below)) found.push(below);
  const numBelow = found.length;
  for (let above = value + 1; above <= limit && found.length === numBelow; above++) {
    if (isFit(above)) found.push(above);
  }
  return found;
}
