import { forwardThenPairs, loopedPlacement } from './building-blocks.js';
import { checkSize, oneChunk } from './check-size.js';
import type { PipelineSchedule, ScheduleAction, ScheduleSize } from './pipeline-schedule.js';

/**
 * Builds 1F1B (PipeDream-Flush). Rank r starts with `p - r - 1` forward passes. Then each further forward
 * pass is followed by the oldest outstanding backward pass (Narayanan et al. 2021, section 2.2.1 and figure
 * 4, top). The bubble is `(p - 1) / m`, as in GPipe, but the activations of at most `p - r` micro-batches are
 * alive.
 *
 * @throws ConfigurationError the errors of `checkSize`; v must be 1
 */
export function oneForwardOneBackward(size: ScheduleSize): PipelineSchedule {
  const { numStages, numMicroBatches, numChunks } = checkSize('1f1b', { size, chunks: oneChunk });
  const actions = Array.from({ length: numStages }, (_, rank) =>
    forwardThenPairs({
      numPasses: numMicroBatches,
      numWarmUp: numStages - rank - 1,
      forward: (microBatch) => ({ kind: 'F', chunk: rank, microBatch }),
      backward: (microBatch) => [{ kind: 'B', chunk: rank, microBatch }],
    }),
  );
  return { name: '1f1b', numMicroBatches, placement: loopedPlacement({ numStages, numChunks }), actions };
}

/**
 * Builds the schedule of a model with a single stage: the forward and backward passes of each micro-batch in
 * turn. The activations of only one micro-batch are alive at a time.
 */
export function oneStage(numMicroBatches: number): PipelineSchedule {
  const actions = Array.from({ length: numMicroBatches }, (_, microBatch): ScheduleAction[] => [
    { kind: 'F', chunk: 0, microBatch },
    { kind: 'B', chunk: 0, microBatch },
  ]).flat();
  return { name: 'one stage', numMicroBatches, placement: [0], actions: [actions] };
}
