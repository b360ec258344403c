import { Parameter } from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import { matmul, Tensor, tidy } from '@mtl/kernels';
import { sliceOfRank, type TensorParallel } from '@mtl/tensor-parallel';
import { paddedVocabularySize, type TransformerConfiguration } from '../blocks/transformer-configuration.js';

interface VocabularyTableOptions {
  readonly model: TransformerConfiguration;
  readonly name: string;
  /**
   * True if the first and the last pipeline stage, on different ranks, hold a copy each (a tied embedding).
   */
  readonly isOnFirstAndLastRank: boolean;
  readonly tensorParallel: TensorParallel | undefined;
}

/** The name of the table that tokens are looked up in, and that is the head's too where they are tied. */
export const wordEmbeddingName = 'embedding.word_embeddings.weight';

/**
 * Returns a table [padded vocabulary, H], its rows sharded over the tensor-parallel ranks.
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

interface VocabularyLogitsOptions {
  /** [n, H] */
  readonly input: Tensor;
  /** [V, H], or this process's rows of it */
  readonly weight: Parameter;
  /** [V], sharded as the weight */
  readonly bias?: Parameter | undefined;
  /** Real entries; padded ones are left out. */
  readonly vocabularySize: number;
  readonly tensorParallel: TensorParallel | undefined;
}

/** Returns logits [n, vocabularySize] on the host; with tensor parallelism the same bits on every process. */
export function vocabularyLogits(options: VocabularyLogitsOptions): Float32Array {
  const { input, weight, bias, vocabularySize, tensorParallel } = options;
  const numRows = input.dim(0);
  // every process of a split vocabulary makes as many columns, padding included, so that they can be gathered
  const numColumns = tensorParallel === undefined ? vocabularySize : weight.shape[0]!;
  return tidy(() => {
    const logits = Tensor.empty({ shape: [numRows, numColumns], dtype: 'float32', device: input.device });
    matmul({
      output: logits,
      left: input,
      right: weight.data.rows(0, numColumns),
      bias: bias?.data.rows(0, numColumns),
      transposeRight: true,
    });
    if (tensorParallel === undefined) return logits.read<'float32'>();
    return gathered(logits, { group: tensorParallel.group, vocabularySize });
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
