import { type LinearCrossEntropyOptions, linearCrossEntropy, type Tape, type Variable } from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import { cast, checkedOperation, crossEntropyRescale, Tensor } from '@mtl/kernels';
import { isSharded } from './is-sharded.js';
import { regionCollectives } from './region-collectives.js';
import type { TensorParallel } from './tensor-parallel.js';

export interface VocabularyParallelCrossEntropyOptions
  extends Omit<LinearCrossEntropyOptions, 'collectives'> {
  readonly tensorParallel: TensorParallel | undefined;
}

/**
 * `linearCrossEntropy` over a vocabulary that is sharded by rows of the weight [V / t, H]: the losses [S * B]
 * of all tokens, the same on every process. Logits exist only chunk by chunk and only for this process's
 * columns; three numbers per token are communicated. The input is replicated, or this process's
 * [S / t, B, H] with sequence parallelism; labels and weights are those of all tokens.
 *
 * @throws as `linearCrossEntropy`: on all processes, as all have the labels
 */
export const vocabularyParallelCrossEntropy = checkedOperation(
  'vocabularyParallelCrossEntropy',
  (tape: Tape, options: VocabularyParallelCrossEntropyOptions): Variable => {
    const { tensorParallel, ...rest } = options;
    if (!isSharded(tensorParallel)) return linearCrossEntropy(tape, rest);
    const { enter, leave } = regionCollectives(tensorParallel);
    return linearCrossEntropy(tape, {
      ...rest,
      collectives: {
        gatherInput: enter,
        reduceInputGradient: leave,
        reduceStatistics: (statistics) => reduceStatistics(statistics, tensorParallel.group),
      },
    });
  },
);

/**
 * The maximum first, then in one go the sums measured from it and the label's logit, which only one process
 * has.
 */
function reduceStatistics(statistics: Tensor, group: ProcessGroup): void {
  const { dtype, device } = statistics;
  const shape = [statistics.dim(1)];
  const rowMaximum = statistics.view({ shape });
  const rowSum = statistics.view({ offset: shape[0]!, shape });
  const sums = statistics.rows(1, 3);
  const groupMaximum = Tensor.empty({ shape, dtype, device });
  cast({ output: groupMaximum, input: rowMaximum });
  group.allReduce(groupMaximum, { operation: 'max' }).wait();
  crossEntropyRescale({ output: rowSum, rowSum, rowMaximum, groupMaximum });
  group.allReduce(sums).wait();
  cast({ output: rowMaximum, input: groupMaximum });
  for (const tensor of [rowMaximum, rowSum, sums, groupMaximum]) tensor.dispose();
}
