import { type EmbeddingLookup, embedding, type Tape, type Variable } from '@mtl/autograd';
import { checkedOperation } from '@mtl/kernels';
import { regionCollectives } from './region-collectives.js';
import type { TensorParallel } from './tensor-parallel.js';

export interface VocabularyParallelEmbeddingOptions {
  /** All token ids [S, B], and this process's rows of the table [V / t, H]. */
  readonly tokens: EmbeddingLookup;
  /**
   * Tables that every process holds whole (positions, token types), with the ids [S, B] or, under sequence
   * parallelism, [S / t, B] of this process's positions.
   */
  readonly others?: readonly EmbeddingLookup[];
  readonly tensorParallel: TensorParallel | undefined;
}

/**
 * The sum of the chosen rows of all tables: [S, B, H], or [S / t, B, H] with sequence parallelism. Each
 * process looks up the tokens whose rows it holds; the others' are zeros, so that the sum over processes is
 * exact.
 *
 * @throws KernelError `MTL_INDEX` for an id that is no row of the whole table: on all processes that look it
 *   up
 */
export const vocabularyParallelEmbedding = checkedOperation(
  'vocabularyParallelEmbedding',
  (tape: Tape, { tokens, others = [], tensorParallel }: VocabularyParallelEmbeddingOptions): Variable => {
    const { enter, leave } = regionCollectives(tensorParallel);
    return embedding(tape, [tokens, ...others], { reduceOutput: leave, gatherOutputGradient: enter });
  },
);
