import { Parameter, type ParameterOptions } from '@mtl/autograd';
import { sliceOfRank, type TensorParallel } from '@mtl/tensor-parallel';
import { type GptModelConfiguration, paddedVocabularySize } from './gpt-model-configuration.js';

export interface VocabularyTableOptions {
  readonly model: GptModelConfiguration;
  readonly tensorParallel: TensorParallel | undefined;
  readonly name: string;
  /** Whether the first and the last pipeline stage, on different processes, hold a copy each (a tied embedding). */
  readonly isOnBothEnds: boolean;
}

/** What a parameter is whose two copies see half of its uses each: it counts once, and gradients are parts. */
const onBothEnds: Pick<ParameterOptions, 'replicatedOver' | 'partialOver'> = {
  replicatedOver: ['dp', 'pp'],
  partialOver: ['pp'],
};

/**
 * A table [padded vocabulary, H], cut by rows over the tensor-parallel processes.
 *
 * @throws ConfigurationError MTL_TENSOR_PARALLEL_SIZE when it cannot be cut evenly
 */
export function vocabularyTable(options: VocabularyTableOptions): Parameter {
  const { model, tensorParallel, name, isOnBothEnds } = options;
  const size = paddedVocabularySize(model);
  return new Parameter({
    name,
    globalShape: [size, model.hiddenSize],
    slices: [
      sliceOfRank(tensorParallel, { size, what: 'entries of the padded vocabulary' }),
      { start: 0, end: model.hiddenSize },
    ],
    initialization: { kind: 'normal', standardDeviation: model.initMethodStd },
    ...(isOnBothEnds ? onBothEnds : {}),
  });
}

/** The name of the table that tokens are looked up in, and that is the head's too where they are tied. */
export const wordEmbeddingName = 'embedding.word_embeddings.weight';
