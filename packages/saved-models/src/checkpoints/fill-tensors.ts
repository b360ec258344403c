import { copyBox, type LogicalTensor } from '@mtl/checkpoint';
import { CheckpointError } from '@mtl/errors';

/**
 * Fills tensors, any slices of them, from whole ones of the same names that are read for it. Memory: the
 * largest tensor, and its box.
 *
 * @param options.path where the whole ones come from, for messages
 * @throws CheckpointError MTL_CHECKPOINT_MISMATCH for a tensor that is not among them
 */
export async function fillTensors(
  tensors: readonly LogicalTensor[],
  options: { readonly from: readonly LogicalTensor[]; readonly path: string },
): Promise<void> {
  const byName = new Map(options.from.map((tensor) => [tensor.name, tensor]));
  for (const tensor of tensors) {
    const whole = byName.get(tensor.name);
    const { globalShape, dtype, slices } = tensor;
    if (whole?.dtype !== dtype || whole.globalShape.join() !== globalShape.join()) {
      throw new CheckpointError(
        'MTL_CHECKPOINT_MISMATCH',
        `${options.path} has no ${tensor.name} of ${dtype} [${globalShape.join(', ')}]`,
        { expected: 'the model that its manifest describes' },
      );
    }
    await tensor.write(copyBox({ source: await whole.read(), dtype, globalShape, slices }));
  }
}
