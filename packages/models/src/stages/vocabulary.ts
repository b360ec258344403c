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
   * True if the first and the last pipeline stage are on different ranks and each has a copy of the table (a
   * tied embedding).
   */
  readonly isOnFirstAndLastRank: boolean;
  readonly factory: LayerFactory;
}

/** The name of the word embedding, which is the table of tokens. A tied head uses the same table. */
export const wordEmbeddingName = 'embedding.word_embeddings.weight';

/**
 * Makes a table [padded vocabulary, H] whose rows are sharded.
 *
 * @throws ConfigurationError MTL_TENSOR_PARALLEL_SIZE if the rows cannot be sharded evenly
 */
export function vocabularyTable(options: VocabularyTableOptions): Parameter {
  const { model, factory, name, isOnFirstAndLastRank } = options;
  const size = paddedVocabularySize(model);
  return factory.sharded({
    name,
    globalShape: [size, model.hiddenSize],
    slices: [entriesHere(model, factory), { start: 0, end: model.hiddenSize }],
    initialization: { kind: 'normal', standardDeviation: model.initMethodStd },
    // 'ends' means that the first and the last stage each have a copy, so a copy's gradients are partial sums
    stages: isOnFirstAndLastRank ? 'ends' : 'one',
    isVocabularyTable: true,
  });
}

/** Returns this process's slice of the padded vocabulary. */
const entriesHere = (model: TransformerConfiguration, factory: LayerFactory): Slice =>
  factory.slice({ size: paddedVocabularySize(model), what: 'entries of the padded vocabulary' });

/** Makes a bias for the logits, [padded vocabulary], initially zero and sharded like the table. */
export const vocabularyBias = (options: Omit<VocabularyTableOptions, 'isOnFirstAndLastRank'>): Parameter =>
  options.factory.sharded({
    name: options.name,
    globalShape: [paddedVocabularySize(options.model)],
    slices: [entriesHere(options.model, options.factory)],
    initialization: { kind: 'zeros' },
  });

/**
 * Returns the sum of rows from the vocabulary's table and rows from other tables (see
 * `vocabularyParallelEmbedding`).
 */
export const vocabularyEmbedding = (
  tape: Tape,
  lookup: { readonly tokens: EmbeddingLookup; readonly others: readonly EmbeddingLookup[] },
  tensorParallel: LayerSharding,
): Variable => vocabularyParallelEmbedding(tape, { ...lookup, tensorParallel });

/** Returns the losses of all tokens (see `vocabularyParallelCrossEntropy`). */
export const vocabularyLosses = (
  tape: Tape,
  operands: Omit<VocabularyParallelCrossEntropyOptions, 'tensorParallel'>,
  tensorParallel: LayerSharding,
): Variable => vocabularyParallelCrossEntropy(tape, { ...operands, tensorParallel });

interface VocabularyLogitsOptions {
  /** [n, H] */
  readonly input: Tensor;
  /** [V, H], or this process's rows */
  readonly weight: Parameter;
  /** [V], sharded like the weight */
  readonly bias?: Parameter | undefined;
  /** The soft cap c: a logit x becomes `c * tanh(x / c)`. Default: no soft cap. */
  readonly softCap?: number | undefined;
  /** The vocabulary size without padding. The logits of padded entries are omitted. */
  readonly vocabularySize: number;
  readonly sharding: LayerSharding;
}

/**
 * Returns the logits [n, vocabularySize] on the host. If the layer is sharded, every process gets the same
 * bits.
 */
export function vocabularyLogits(options: VocabularyLogitsOptions): Float32Array {
  const { input, weight, vocabularySize, sharding } = options;
  const numRows = input.dim(0);
  // every process must contribute the same number of columns to the all-gather, so padding is included
  const numColumns = sharding === undefined ? vocabularySize : weight.shape[0]!;
  return tidy(() => {
    const logits = Tensor.empty({ shape: [numRows, numColumns], dtype: 'float32', device: input.device });
    computeVocabularyLogits({ ...options, logits });
    if (sharding === undefined) return logits.read<'float32'>();
    return gathered(logits, { group: sharding.group, vocabularySize });
  });
}

/**
 * Computes the logits of this process's vocabulary entries into a tensor on the device.
 *
 * @param options.logits float32 [n, entries], for the first entries in the weight
 */
export function computeVocabularyLogits({
  logits,
  input,
  weight,
  bias,
  softCap,
}: Pick<VocabularyLogitsOptions, 'input' | 'weight' | 'bias' | 'softCap'> & {
  readonly logits: Tensor;
}): void {
  const numColumns = logits.dim(1);
  tidy(() =>
    matmul({
      output: logits,
      left: input,
      right: weight.data.rows(0, numColumns),
      bias: bias?.data.rows(0, numColumns),
      transposeRight: true,
    }),
  );
  if (softCap === undefined) return;
  scale({ output: logits, input: logits, factor: 1 / softCap });
  tanhForward({ output: logits, input: logits });
  scale({ output: logits, input: logits, factor: softCap });
}

/**
 * All-gathers logits [n, V / t] to [n, vocabularySize], where V is the padded vocabulary size and t the
 * tensor-parallel size. Every process gets the same bits.
 */
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
    // the last ranks may hold padding only
    if (numReal <= 0) break;
    for (let row = 0; row < numRows; row++) {
      const start = (rank * numRows + row) * numColumns;
      logits.set(parts.subarray(start, start + numReal), row * vocabularySize + first);
    }
  }
  return logits;
}
