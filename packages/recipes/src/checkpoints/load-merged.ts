import { type Checkpoint, dtypeBytes, type LogicalTensor } from '@mtl/checkpoint';
import { CheckpointError } from '@mtl/errors';
import { type Slice, sizeOf } from '@mtl/kernels';
import { type GptModelConfiguration, type LoraConfiguration, mergedWeights } from '@mtl/models';
import { savedWeights } from './saved-weights.js';

/**
 * Fills float32 tensors of a model, any slices of them, from a checkpoint with low-rank adapters, which are
 * merged on the way. Memory: the largest tensor, three times.
 *
 * @throws CheckpointError MTL_CHECKPOINT_MISMATCH for a tensor that the checkpoint does not have
 */
export async function loadMerged(
  checkpoint: Checkpoint,
  options: {
    readonly tensors: readonly LogicalTensor[];
    readonly model: GptModelConfiguration;
    readonly lora: LoraConfiguration;
  },
): Promise<void> {
  const merged = new Map(
    mergedWeights(savedWeights(checkpoint), options).map((tensor) => [tensor.name, tensor]),
  );
  for (const tensor of options.tensors) {
    const whole = merged.get(tensor.name);
    const { globalShape: shape, dtype } = tensor;
    if (whole?.dtype !== dtype || whole.globalShape.join() !== shape.join()) {
      throw new CheckpointError(
        'MTL_CHECKPOINT_MISMATCH',
        `${checkpoint.path} has no ${tensor.name} of ${dtype} [${shape.join(', ')}]`,
        { expected: 'the model that its manifest describes' },
      );
    }
    await tensor.write(boxOf(await whole.read(), { shape, slices: tensor.slices, bytes: dtypeBytes[dtype] }));
  }
}

/** The bytes of a box of a row-major tensor. */
function boxOf(
  values: Uint8Array,
  { shape, slices, bytes }: { shape: readonly number[]; slices: readonly Slice[]; bytes: number },
): Uint8Array {
  // the last dimensions that are whole, and the one before them, lie together
  const isWhole = (dim: number): boolean => slices[dim]!.start === 0 && slices[dim]!.end === shape[dim];
  let together = shape.length - 1;
  while (together > 0 && isWhole(together)) together -= 1;
  const row = sizeOf(shape.slice(together + 1)) * bytes;
  const { start, end } = slices[together]!;
  const box = new Uint8Array(slices.reduce((size, slice) => size * (slice.end - slice.start), bytes));
  let written = 0;
  const copy = (dim: number, index: number): void => {
    if (dim === together) {
      const from = index * shape[dim]! * row;
      box.set(values.subarray(from + start * row, from + end * row), written);
      written += (end - start) * row;
      return;
    }
    for (let at = slices[dim]!.start; at < slices[dim]!.end; at++) copy(dim + 1, index * shape[dim]! + at);
  };
  copy(0, 0);
  return box;
}
