import {
  type EmbeddingLookup,
  embedding,
  type LinearCrossEntropyOptions,
  linearCrossEntropy,
  type Tape,
  type Variable,
} from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import { cast, checkedOperation, crossEntropyRescale, Tensor } from '@mtl/kernels';
import { regionCollectives } from './region-collectives.js';
import { isSharded, type TensorParallel } from './tensor-parallel.js';

export interface VocabularyParallelEmbeddingOptions {
  /** The ids of all tokens [S, B], and this process's rows of the table [V / t, H]. */
  readonly tokens: EmbeddingLookup;
  /**
   * Replicated tables (position and token-type embeddings), each with its ids: [S, B] or, with sequence
   * parallelism, the ids for this process's positions, [S / t, B].
   */
  readonly others?: readonly EmbeddingLookup[];
  readonly tensorParallel: TensorParallel | undefined;
}

/**
 * Looks up the rows of all tables and adds them: [S, B, H], or [S / t, B, H] with sequence parallelism. For
 * the sharded table, each process has zeros for tokens whose rows it does not hold, so the sum over processes
 * is exact.
 *
 * @throws KernelError `MTL_INDEX` for an id that is not a row of the complete table, on all processes that
 * look
 *   it up
 */
export const vocabularyParallelEmbedding = checkedOperation(
  'vocabularyParallelEmbedding',
  (tape: Tape, { tokens, others = [], tensorParallel }: VocabularyParallelEmbeddingOptions): Variable => {
    const { enter, leave } = regionCollectives(tensorParallel);
    return embedding(tape, [tokens, ...others], { reduceOutput: leave, gatherOutputGradient: enter });
  },
);

export interface VocabularyParallelCrossEntropyOptions
  extends Omit<LinearCrossEntropyOptions, 'collectives'> {
  readonly tensorParallel: TensorParallel | undefined;
}

/**
 * Computes `linearCrossEntropy` over a vocabulary that is sharded by rows of the weight [V / t, H]. Returns
 * the losses [S * B] of all tokens, the same on every process. Logits exist only chunk by chunk and only for
 * this process's columns. Three values per token are communicated. The input is replicated or, with sequence
 * parallelism, this process's shard [S / t, B, H]. Labels and weights are for all tokens. While the tape
 * records, backward computes the losses together with the gradients, as in `linearCrossEntropy`.
 *
 * @throws the errors of `linearCrossEntropy` on all processes, because all have the labels
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
 * Combines the statistics of all processes with two collectives. The first computes the maximum. The second
 * sums the exponentials relative to the maximum. It also sums the label's logit, which only one process has.
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
