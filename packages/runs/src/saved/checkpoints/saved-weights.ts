import {
  type Checkpoint,
  copyBox,
  dtypeBytes,
  hostTensor,
  type LogicalTensor,
  loadCheckpoint,
  slicesOfFlatRange,
} from '@mtl/checkpoint';
import { CheckpointError } from '@mtl/errors';
import { countElements } from '@mtl/kernels';
import { isOptimizerTensor } from '@mtl/trainer';

/**
 * Returns the complete weights in a checkpoint, which may have been saved with any layout. A weight is loaded
 * when a caller reads it.
 */
export function savedWeights(checkpoint: Checkpoint): LogicalTensor[] {
  return [...checkpoint.tensors.values()]
    .filter(({ name }) => !isOptimizerTensor(name))
    .map(({ name, dtype, globalShape }) =>
      readThrough({ name, dtype, globalShape }, (tensors) =>
        loadCheckpoint({ checkpoint, tensors, ignore: () => true }),
      ),
    );
}

/** Returns a complete tensor that is loaded when a caller reads it, completely or in slices. */
export function readThrough(
  tensor: Pick<LogicalTensor, 'name' | 'dtype' | 'globalShape'>,
  load: (tensors: readonly LogicalTensor[]) => Promise<unknown>,
): LogicalTensor {
  const readInto = async (memory: Uint8Array): Promise<void> => {
    await load([hostTensor({ ...tensor, memory })]);
  };
  const read = async (): Promise<Uint8Array> => {
    const memory = new Uint8Array(countElements(tensor.globalShape) * dtypeBytes[tensor.dtype]);
    await readInto(memory);
    return memory;
  };
  const slices = tensor.globalShape.map((end) => ({ start: 0, end }));
  const size = dtypeBytes[tensor.dtype];
  const readRange: LogicalTensor['readRange'] = async (range, target) => {
    const parts = slicesOfFlatRange({ slices, ...range });
    await load(
      parts.map(({ slices, offset, length }) => {
        const memory = target.subarray(offset * size, (offset + length) * size);
        return hostTensor({ ...tensor, slices, memory });
      }),
    );
  };
  return { ...tensor, slices, read, readInto, readRange, write: () => {} };
}

/**
 * Fills tensors, or slices of tensors, from complete tensors with the same names, which are loaded one at a
 * time. Only the largest tensor and its slice need memory at the same time.
 *
 * @param options.path the path of the complete tensors, for messages
 * @throws CheckpointError MTL_CHECKPOINT_MISMATCH for a tensor that is missing in the source
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
