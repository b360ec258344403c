import { forwardThenPairs, loopedPlacement } from './building-blocks.js';
import { checkSize, oneChunk } from './check-size.js';
import type { PipelineSchedule, ScheduleAction, ScheduleSize } from './pipeline-schedule.js';

/**
 * Builds 1F1B with backward in two halves: I goes upstream at once, W follows it late enough that every rank
 * has the same number of micro-batches between their forward and their W (Qi et al. 2023, arXiv 2401.10241,
 * section 2 and figures 2 and 3).
 *
 * `depth` is how many times the warm-up of 1F1B rank r runs before its first backward, depth (p-r-1), and how
 * many times r the weight halves lag behind the input halves, depth r.
 */
function zeroBubbleH(name: string, options: { size: ScheduleSize; depth: 1 | 2 }): PipelineSchedule {
  const { size, depth } = options;
  const { numStages, numMicroBatches, numChunks } = checkSize(name, { size, chunks: oneChunk });
  const actions = Array.from({ length: numStages }, (_, rank) => {
    const lag = depth * rank;
    const action = (kind: 'F' | 'I' | 'W', microBatch: number): ScheduleAction => {
      return { kind, chunk: rank, microBatch };
    };
    const order = forwardThenPairs({
      numPasses: numMicroBatches,
      numWarmUp: depth * (numStages - rank - 1),
      forward: (microBatch) => action('F', microBatch),
      backward: (microBatch) =>
        microBatch < lag
          ? [action('I', microBatch)]
          : [action('I', microBatch), action('W', microBatch - lag)],
    });
    for (let late = Math.max(0, numMicroBatches - lag); late < numMicroBatches; late++) {
      order.push(action('W', late));
    }
    return order;
  });
  return { name, numMicroBatches, placement: loopedPlacement({ numStages, numChunks }), actions };
}

/**
 * Builds ZB-H1, with 1F1B's memory. Bubble (p-1)(T_F + T_B - T_W) of a step, where 1F1B has (p-1)(T_F + T_B +
 * T_W); on rank r at most (p-r) M_B + r M_W alive (arXiv 2401.10241, section 2.1, tables 1 and 2; T_B is the
 * input half's time).
 *
 * @throws ConfigurationError see `checkSize`; v must be 1
 */
export function zeroBubbleH1(size: ScheduleSize): PipelineSchedule {
  return zeroBubbleH('zb-h1', { size, depth: 1 });
}

/**
 * Builds ZB-H2, with about twice 1F1B's memory, (2p-2r-1) M_B + 2r M_W on rank r, for a bubble of (p-1)(T_F +
 * T_B - 2 T_W): none when the three take as long as each other and no rank waits for another between steps
 * (arXiv 2401.10241, section 2.2).
 *
 * @throws ConfigurationError see `checkSize`; v must be 1
 */
export function zeroBubbleH2(size: ScheduleSize): PipelineSchedule {
  return zeroBubbleH('zb-h2', { size, depth: 2 });
}
