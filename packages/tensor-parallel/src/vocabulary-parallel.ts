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
   * Replicated tables (positions, token types), each with its ids: [S, B], or under sequence parallelism [S /
   * t, B] for this process's positions.
   */
  readonly others?: readonly EmbeddingLookup[];
  readonly tensorParallel: TensorParallel | undefined;
}

/**
 * Sums the selected rows of all tables: [S, B, H], or [S / t, B, H] with sequence parallelism. Each process
 * looks up the tokens whose rows it holds and has zeros for the other tokens, so that the sum over processes
 * is exact.
 *
 * @throws KernelError `MTL_INDEX` for an id that is not a row of the whole table, on all processes that look
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
 * Computes `linearCrossEntropy` over a vocabulary that is sharded by rows of the weight [V / t, H]: the
 * losses [S * B] of all tokens, the same on every process. Logits exist only chunk by chunk and only for this
 * process's columns; three numbers per token are communicated. The input is replicated, or this process's [S
 * / t, B, H] with sequence parallelism; labels and weights are for all tokens.
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
 * Combines the statistics of all processes: the maximum first; then, in one collective, the sums relative to
 * the maximum and the label's logit, which only one process has.
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
