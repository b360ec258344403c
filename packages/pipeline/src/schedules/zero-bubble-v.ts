import { checkSize } from './check-size.js';
import type { PipelineSchedule, ScheduleAction, ScheduleSize } from './pipeline-schedule.js';

/**
 * Builds ZB-V, which places two chunks per rank as a V and splits the backward pass into two halves. Rank r
 * has chunks r and 2p-1-r, so the first rank has both the first and the last chunk. If F, I and W take equal
 * times, there is no bubble, and the peak memory is 2p chunk activations, as in 1F1B (Qi et al. 2023, arXiv
 * 2401.10241, section 6). Each micro-batch crosses the boundary between neighbouring ranks twice.
 *
 * @throws ConfigurationError the errors of `checkSize`; v must be 2
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
 * Returns the given rank's actions. `down` runs the rank's chunk on the way from the first rank to the last.
 * `up` runs the rank's chunk on the way back, which leads to the head.
 */
function rankOrder(options: {
  readonly numStages: number;
  readonly numMicroBatches: number;
  readonly rank: number;
}): ScheduleAction[] {
  const { numStages, numMicroBatches, rank } = options;
  // The complete pattern needs 2p-1 micro-batches. A smaller step uses the same pattern and leaves out the
  // actions of the missing micro-batches.
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
  // fill phase: F passes until the first micro-batch has gone down the V and up again, and then until its
  // gradient arrives
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
  // drain phase: passes for which other ranks wait come first; weight halves fill the gaps and the end
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
