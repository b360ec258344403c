import { checkSize } from './check-size.js';
import type { PipelineSchedule, ScheduleAction, ScheduleSize } from './pipeline-schedule.js';

/**
 * Builds ZB-V: two chunks per rank, placed as a V (rank r holds chunks r and 2p-1-r, so that the first rank
 * has both ends of the model), backward in two halves. No bubble when F, I and W take as long as each other,
 * with 1F1B's memory: 2p chunk activations (Qi et al. 2023, arXiv 2401.10241, section 6). Each boundary but
 * the turn is crossed twice.
 *
 * @throws ConfigurationError see `checkSize`; v must be 2
 */
export function zeroBubbleV(size: ScheduleSize): PipelineSchedule {
  const { numStages, numMicroBatches } = checkSize('zb-v', {
    size,
    chunks: { least: 2, most: 2, remedy: 'zb-h1 and zb-h2 split backward with one chunk per rank' },
  });
  const numChunks = 2 * numStages;
  return {
    name: 'zb-v',
    numMicroBatches,
    placement: Array.from({ length: numChunks }, (_, chunk) => Math.min(chunk, numChunks - 1 - chunk)),
    actions: Array.from({ length: numStages }, (_, rank) => rankOrder({ numStages, numMicroBatches, rank })),
  };
}

/**
 * Returns the actions of one rank. "Down" is the arm of the V that leads to the turn, "up" the arm that leads
 * to the head.
 */
function rankOrder(options: {
  readonly numStages: number;
  readonly numMicroBatches: number;
  readonly rank: number;
}): ScheduleAction[] {
  const { numStages, numMicroBatches, rank } = options;
  // The pattern needs 2p-1 micro-batches to unfold; of a smaller step it is what remains when the others are
  // left out, which can only make room.
  const numPatterned = Math.max(numMicroBatches, 2 * numStages - 1);
  const order: ScheduleAction[] = [];
  const arm = (chunk: number) => {
    const next = { F: 0, I: 0, W: 0 };
    const run = (kind: 'F' | 'I' | 'W'): void => {
      const microBatch = next[kind]++;
      if (microBatch < numMicroBatches) order.push({ kind, chunk, microBatch });
    };
    return { next, run };
  };
  const down = arm(rank);
  const up = arm(2 * numStages - 1 - rank);
  const repeat = (times: number, actions: () => void): void => {
    for (let time = 0; time < times; time++) actions();
  };
  // Fill: until the first micro-batch comes back along the V, then until its gradient does.
  repeat(2 * (numStages - rank) - 1, () => down.run('F'));
  repeat(rank, () => {
    up.run('F');
    down.run('F');
  });
  repeat(numStages - rank, () => {
    up.run('F');
    up.run('I');
    up.run('W');
  });
  // Steady: six passes for each micro-batch.
  while (up.next.F < numPatterned) {
    if (down.next.F < numPatterned) down.run('F');
    down.run('I');
    down.run('W');
    up.run('F');
    up.run('I');
    up.run('W');
  }
  // Drain: what others wait for first, weight halves in the gaps and at the end.
  repeat(rank, () => {
    down.run('I');
    up.run('I');
  });
  repeat(numStages - rank, () => {
    down.run('I');
    down.run('W');
  });
  while (up.next.W < numPatterned) up.run('W');
  while (down.next.W < numPatterned) down.run('W');
  return order;
}
