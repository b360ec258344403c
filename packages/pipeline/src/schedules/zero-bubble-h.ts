import { forwardThenPairs, loopedPlacement } from './building-blocks.js';
import { checkSize, oneChunk } from './check-size.js';
import type { PipelineSchedule, ScheduleAction, ScheduleSize } from './pipeline-schedule.js';

/**
 * Builds 1F1B with the backward pass split into two halves (Qi et al. 2023, arXiv 2401.10241, section 2 and
 * figures 2 and 3). The input half I runs as early as in 1F1B. The weight half W is delayed until every rank
 * has the same number of micro-batches between forward and W.
 *
 * `depth` scales both delays: rank r runs `depth * (p - r - 1)` forward passes before its first backward pass
 * (1F1B runs `p - r - 1`), and its weight halves lag `depth * r` micro-batches behind the input halves.
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
 * Builds ZB-H1, which needs as much memory as 1F1B. The bubble of a step is `(p - 1) * (T_F + T_B - T_W)`,
 * compared with `(p - 1) * (T_F + T_B + T_W)` in 1F1B, where T_B is the time of the input half. The
 * activations of rank r take at most `(p - r) * M_B + r * M_W` (see `ActivationSizes`; arXiv 2401.10241,
 * section 2.1, tables 1 and 2).
 *
 * @throws ConfigurationError the errors of `checkSize`; v must be 1
 */
export function zeroBubbleH1(size: ScheduleSize): PipelineSchedule {
  return zeroBubbleH('zb-h1', { size, depth: 1 });
}

/**
 * Builds ZB-H2, which needs about twice the memory of 1F1B: `(2 * p - 2 * r - 1) * M_B + 2 * r * M_W` on rank
 * r. Its bubble is `(p - 1) * (T_F + T_B - 2 * T_W)`. The bubble is zero if the three times are equal and no
 * rank waits for another rank between steps (arXiv 2401.10241, section 2.2).
 *
 * @throws ConfigurationError the errors of `checkSize`; v must be 1
 */
export function zeroBubbleH2(size: ScheduleSize): PipelineSchedule {
  return zeroBubbleH('zb-h2', { size, depth: 2 });
}
