import { type Checkpoint, dtypeBytes, hostTensor, type LogicalTensor, loadCheckpoint } from '@mtl/checkpoint';
import { sizeOf } from '@mtl/kernels';
import { isOptimizerTensor } from '@mtl/trainer/internal';

/** The whole weights in a checkpoint, whatever layout saved it, each read when its turn comes. */
export function savedWeights(checkpoint: Checkpoint): LogicalTensor[] {
  return [...checkpoint.tensors.values()]
    .filter(({ name }) => !isOptimizerTensor(name))
    .map(({ name, dtype, globalShape }) => {
      const tensor = (memory: Uint8Array): LogicalTensor => hostTensor({ name, dtype, globalShape, memory });
      const readInto = async (memory: Uint8Array): Promise<void> => {
        await loadCheckpoint({ checkpoint, tensors: [tensor(memory)], ignore: () => true });
      };
      // no memory of its own: what it has is read
      const { memory: _, ...described } = tensor(new Uint8Array(0));
      return {
        ...described,
        readInto,
        read: async () => {
          const memory = new Uint8Array(sizeOf(globalShape) * dtypeBytes[dtype]);
          await readInto(memory);
          return memory;
        },
      };
    });
}
