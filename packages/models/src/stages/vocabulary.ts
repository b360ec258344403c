import type { EmbeddingLookup, Parameter, Tape, Variable } from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import { matmul, scale, Tensor, tanhForward, tidy } from '@mtl/kernels';
import type { Slice } from '@mtl/layout';
import {
  type VocabularyParallelCrossEntropyOptions,
  vocabularyParallelCrossEntropy,
  vocabularyParallelEmbedding,
} from '@mtl/tensor-parallel';
import type { LayerFactory } from '../blocks/layer-factory.js';
import type { LayerSharding } from '../blocks/layer-sharding.js';
import { paddedVocabularySize, type TransformerConfiguration } from '../blocks/transformer-configuration.js';

interface VocabularyTableOptions {
  readonly model: TransformerConfiguration;
  readonly name: string;
  /**
   * True if the first and the last pipeline stage, on different ranks, hold a copy each (a tied embedding).
   */
  readonly isOnFirstAndLastRank: boolean;
  readonly factory: LayerFactory;
}

/** The name of the word embedding, the table of tokens; if the head is tied, it has the same table. */
export const wordEmbeddingName = 'embedding.word_embeddings.weight';

/**
 * Returns a table [padded vocabulary, H], its rows sharded.
 *
 * @throws ConfigurationError MTL_TENSOR_PARALLEL_SIZE when it cannot be sharded evenly
 */
export function vocabularyTable(options: VocabularyTableOptions): Parameter {
  const { model, factory, name, isOnFirstAndLastRank } = options;
  const size = paddedVocabularySize(model);
  return factory.sharded({
    name,
    globalShape: [size, model.hiddenSize],
    slices: [entriesHere(model, factory), { start: 0, end: model.hiddenSize }],
    initialization: { kind: 'normal', standardDeviation: model.initMethodStd },
    // two copies, each used for one of two purposes: replicated, with gradients that are partial sums
    stages: isOnFirstAndLastRank ? 'ends' : 'one',
    isVocabularyTable: true,
  });
}

/** Returns the entries of the padded vocabulary that this process has. */
const entriesHere = (model: TransformerConfiguration, factory: LayerFactory): Slice =>
  factory.slice({ size: paddedVocabularySize(model), what: 'entries of the padded vocabulary' });

/** Returns a bias [padded vocabulary] of logits, initially zero, sharded as the table. */
export const vocabularyBias = (options: Omit<VocabularyTableOptions, 'isOnFirstAndLastRank'>): Parameter =>
  options.factory.sharded({
    name: options.name,
    globalShape: [paddedVocabularySize(options.model)],
    slices: [entriesHere(options.model, options.factory)],
    initialization: { kind: 'zeros' },
  });

/** Returns the sum of the rows of the vocabulary's table and of others: see `vocabularyParallelEmbedding`. */
export const vocabularyEmbedding = (
  tape: Tape,
  lookup: { readonly tokens: EmbeddingLookup; readonly others: readonly EmbeddingLookup[] },
  tensorParallel: LayerSharding,
): Variable => vocabularyParallelEmbedding(tape, { ...lookup, tensorParallel });

/** Returns the losses of all tokens: see `vocabularyParallelCrossEntropy`. */
export const vocabularyLosses = (
  tape: Tape,
  operands: Omit<VocabularyParallelCrossEntropyOptions, 'tensorParallel'>,
  tensorParallel: LayerSharding,
): Variable => vocabularyParallelCrossEntropy(tape, { ...operands, tensorParallel });

interface VocabularyLogitsOptions {
  /** [n, H] */
  readonly input: Tensor;
  /** [V, H], or this process's rows of it */
  readonly weight: Parameter;
  /** [V], sharded as the weight */
  readonly bias?: Parameter | undefined;
  /** c: logits x become c tanh(x / c). Default: no cap. */
  readonly softCap?: number | undefined;
  /** Real entries; padded ones are left out. */
  readonly vocabularySize: number;
  readonly sharding: LayerSharding;
}

/**
 * Returns logits [n, vocabularySize] on the host; where layers are sharded the same bits on every process.
 */
export function vocabularyLogits(options: VocabularyLogitsOptions): Float32Array {
  const { input, weight, bias, softCap, vocabularySize, sharding } = options;
  const numRows = input.dim(0);
  // every process of a sharded vocabulary computes the same number of columns, padding included, for the
  // gather
  const numColumns = sharding === undefined ? vocabularySize : weight.shape[0]!;
  return tidy(() => {
    const logits = Tensor.empty({ shape: [numRows, numColumns], dtype: 'float32', device: input.device });
    matmul({
      output: logits,
      left: input,
      right: weight.data.rows(0, numColumns),
      bias: bias?.data.rows(0, numColumns),
      transposeRight: true,
    });
    if (softCap !== undefined) {
      const output = logits;
      scale({ output, input: logits, factor: 1 / softCap });
      tanhForward({ output, input: logits });
      scale({ output, input: logits, factor: softCap });
    }
    if (sharding === undefined) return logits.read<'float32'>();
    return gathered(logits, { group: sharding.group, vocabularySize });
  });
}

/** Gathers logits [n, V / t] of every process to [n, vocabularySize], the same bits everywhere. */
function gathered(
  part: Tensor,
  { group, vocabularySize }: { group: ProcessGroup; vocabularySize: number },
): Float32Array {
  const [numRows, numColumns] = part.shape as [number, number];
  const { dtype, device } = part;
  const output = Tensor.empty({ shape: [group.size, numRows, numColumns], dtype, device });
  group.allGather({ output, input: part }).wait();
  const parts = output.read<'float32'>();
  const logits = new Float32Array(numRows * vocabularySize);
  for (let rank = 0; rank < group.size; rank++) {
    const first = rank * numColumns;
    const numReal = Math.min(vocabularySize - first, numColumns);
    // the last ranks may hold only padding
    if (numReal <= 0) break;
    for (let row = 0; row < numRows; row++) {
      const start = (rank * numRows + row) * numColumns;
      logits.set(parts.subarray(start, start + numReal), row * vocabularySize + first);
    }
  }
  return logits;
}
