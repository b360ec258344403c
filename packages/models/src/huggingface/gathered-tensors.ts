import type { LogicalTensor } from '@mtl/checkpoint';
import type { ProcessGroup } from '@mtl/comm';
import { UsageError } from '@mtl/errors';
import { Tensor } from '@mtl/kernels';

/**
 * Tensors whose slices the processes of a group hold, as whole ones: `read` gathers. All processes must read the same
 * tensors in the same order.
 *
 * @throws UsageError MTL_HUGGING_FACE_TENSOR when a tensor is not cut along one dimension, evenly and by rank
 */
export function gatheredTensors(tensors: readonly LogicalTensor[], group: ProcessGroup): LogicalTensor[] {
  return tensors.map((tensor) => {
    const { globalShape, slices } = tensor;
    const dim = slices.findIndex(([start, end], index) => start !== 0 || end !== globalShape[index]);
    if (dim < 0) return tensor;
    checkCut(tensor, dim, group);
    const numRows = globalShape.slice(0, dim).reduce((product, size) => product * size, 1);
    return {
      ...tensor,
      slices: globalShape.map((size) => [0, size] as const),
      read: async () => interleave(gather(await tensor.read(), group), { numRows, numParts: group.size }),
    };
  });
}

function checkCut({ name, globalShape, slices }: LogicalTensor, dim: number, group: ProcessGroup): void {
  const each = globalShape[dim]! / group.size;
  const [start, end] = slices[dim]!;
  const isOnlyCut = slices.every(
    ([first, last], index) => index === dim || (first === 0 && last === globalShape[index]),
  );
  if (isOnlyCut && start === group.rank * each && end === start + each) return;
  throw new UsageError(
    'MTL_HUGGING_FACE_TENSOR',
    `rank ${group.rank} of ${group.size} holds [${slices.map((slice) => slice.join(' to ')).join(', ')}] of ${name}`,
    { expected: `an even cut along one dimension of [${globalShape.join(', ')}], in the order of the ranks` },
  );
}

/** The bytes of all processes, one after the other. */
function gather(own: Uint8Array, group: ProcessGroup): Uint8Array {
  const input = Tensor.from(own, { shape: [own.length], dtype: 'uint8' });
  const output = Tensor.empty({ shape: [group.size * own.length], dtype: 'uint8' });
  group.allGather({ output, input }).wait();
  const bytes = output.read<'uint8'>();
  input.dispose();
  output.dispose();
  return bytes;
}

/** Parts one after the other, each of `numRows` rows, to rows of all parts side by side. */
function interleave(
  parts: Uint8Array,
  { numRows, numParts }: { numRows: number; numParts: number },
): Uint8Array {
  if (numRows === 1) return parts;
  const whole = new Uint8Array(parts.length);
  const width = parts.length / numRows / numParts;
  for (let part = 0; part < numParts; part++) {
    for (let row = 0; row < numRows; row++) {
      const from = (part * numRows + row) * width;
      whole.set(parts.subarray(from, from + width), (row * numParts + part) * width);
    }
  }
  return whole;
}
