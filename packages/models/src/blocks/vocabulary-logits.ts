import type { Parameter } from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import { matmul, Tensor, tidy } from '@mtl/kernels';
import type { TensorParallel } from '@mtl/tensor-parallel';

export interface VocabularyLogitsOptions {
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

/** Logits [n, vocabularySize] on the host; with tensor parallelism the same bits on every process. */
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

/** Logits [n, V / t] of every process to [n, vocabularySize], the same bits everywhere. */
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
