import { type Initialization, Parameter, type ParameterOptions } from '@mtl/autograd';
import { sliceOfRank, type TensorParallel } from '@mtl/tensor-parallel';
import { paddedVocabularySize, type TransformerConfiguration } from './transformer-configuration.js';
import { wholeOnEveryRank } from './whole-on-every-rank.js';

interface Spread {
  readonly tensorParallel: TensorParallel | undefined;
}

export interface VocabularyTableOptions extends Spread {
  readonly model: TransformerConfiguration;
  readonly name: string;
  /**
   * Whether the first and the last pipeline stage, on different processes, hold a copy each (a tied
   * embedding).
   */
  readonly isOnBothEnds: boolean;
}

/**
 * What a parameter is whose two copies see half of its uses each: it counts once, and gradients are parts.
 */
const onBothEnds: Pick<ParameterOptions, 'replicatedOver' | 'partialOver'> = {
  replicatedOver: ['dp', 'pp'],
  partialOver: ['pp'],
};

/** The name of the table that tokens are looked up in, and that is the head's too where they are tied. */
export const wordEmbeddingName = 'embedding.word_embeddings.weight';

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

/**
 * A parameter outside the blocks that every process holds whole, used with what is cut along the sequence.
 */
export function wholeParameter(
  name: string,
  options: Spread & { readonly globalShape: readonly number[]; readonly initialization: Initialization },
): Parameter {
  const { globalShape, initialization, tensorParallel } = options;
  return new Parameter({ name, globalShape, initialization, ...wholeOnEveryRank(tensorParallel) });
}

/** Weight and bias of a layer norm over the hidden size. */
export function normParameters(
  name: string,
  { hiddenSize, tensorParallel }: Spread & { readonly hiddenSize: number },
): { readonly weight: Parameter; readonly bias: Parameter } {
  const vector = (part: string, kind: 'ones' | 'zeros'): Parameter =>
    wholeParameter(`${name}.${part}`, {
      globalShape: [hiddenSize],
      initialization: { kind },
      tensorParallel,
    });
  return { weight: vector('weight', 'ones'), bias: vector('bias', 'zeros') };
}
