import { Parameter } from '@mtl/autograd';
import { sliceOfRank, type TensorParallel } from '@mtl/tensor-parallel';
import { paddedVocabularySize, type TransformerConfiguration } from './transformer-configuration.js';

export interface VocabularyTableOptions {
  readonly model: TransformerConfiguration;
  readonly name: string;
  /**
   * Whether the first and the last pipeline stage, on different ranks, hold a copy each (a tied embedding).
   */
  readonly isOnFirstAndLastRank: boolean;
  readonly tensorParallel: TensorParallel | undefined;
}

/** The name of the table that tokens are looked up in, and that is the head's too where they are tied. */
export const wordEmbeddingName = 'embedding.word_embeddings.weight';

/**
 * A table [padded vocabulary, H], its rows sharded over the tensor-parallel ranks.
 *
 * @throws ConfigurationError MTL_TENSOR_PARALLEL_SIZE when it cannot be sharded evenly
 */
export function vocabularyTable(options: VocabularyTableOptions): Parameter {
  const { model, tensorParallel, name, isOnFirstAndLastRank } = options;
  const size = paddedVocabularySize(model);
  return new Parameter({
    name,
    globalShape: [size, model.hiddenSize],
    slices: [
      sliceOfRank(tensorParallel, { size, what: 'entries of the padded vocabulary' }),
      { start: 0, end: model.hiddenSize },
    ],
    initialization: { kind: 'normal', standardDeviation: model.initMethodStd },
    // two copies, each used for one of two purposes: replicated, with gradients that are partial sums
    placement: { sharded: { tp: 0 }, stages: isOnFirstAndLastRank ? 'ends' : 'one' },
    isVocabularyTable: true,
  });
}
