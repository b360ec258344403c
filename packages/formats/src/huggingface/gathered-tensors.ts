import { dtypeBytes, type LogicalTensor } from '@mtl/checkpoint';
import type { ProcessGroup } from '@mtl/comm';
import { UsageError } from '@mtl/errors';
import { Tensor } from '@mtl/kernels';
import { ScratchMemory } from './scratch-memory.js';

/**
 * Complete tensors of which the ranks of a group hold slices: `read` gathers. All ranks must read
 * the same tensors in the same order; what is read of one is overwritten by the next. Memory: the largest
 * tensor and three times the largest slice.
 *
 * @throws UsageError MTL_HUGGING_FACE_TENSOR when a tensor is not sharded along one dimension, evenly and by
 *   rank
 */
export function gatheredTensors(tensors: readonly LogicalTensor[], group: ProcessGroup): LogicalTensor[] {
  const scratch = new ScratchMemory(2 * Math.max(0, ...tensors.map(wholeBytes)) + 64);
  return tensors.map((tensor) => {
    const { globalShape, slices, readInto, ...rest } = tensor;
    const dim = slices.findIndex(({ start, end }, index) => start !== 0 || end !== globalShape[index]);
    if (dim < 0) return tensor;
    checkCut(tensor, dim, group);
    const numRows = globalShape.slice(0, dim).reduce((product, size) => product * size, 1);
    return {
      ...rest,
      globalShape,
      slices: globalShape.map((size) => ({ start: 0, end: size })),
      read: async () => {
        scratch.reset();
        const part = scratch.bytes(wholeBytes(tensor) / group.size);
        if (readInto === undefined) part.set(await tensor.read());
        else await readInto(part);
        const whole = scratch.bytes(wholeBytes(tensor));
        gather(part, { group, numRows, whole });
        return whole;
      },
    };
  });
}

const wholeBytes = ({ globalShape, dtype }: LogicalTensor): number =>
  globalShape.reduce((product, size) => product * size, dtypeBytes[dtype]);

function checkCut({ name, globalShape, slices }: LogicalTensor, dim: number, group: ProcessGroup): void {
  const each = globalShape[dim]! / group.size;
  const { start, end } = slices[dim]!;
  const isOnlyCut = slices.every(
    (slice, index) => index === dim || (slice.start === 0 && slice.end === globalShape[index]),
  );
  if (isOnlyCut && start === group.rank * each && end === start + each) return;
  throw new UsageError(
    'MTL_HUGGING_FACE_TENSOR',
    `rank ${group.rank} of ${group.size} holds [${slices.map((slice) => `${slice.start} to ${slice.end}`).join(', ')}] of ${name}`,
    { expected: `even shards along one dimension of [${globalShape.join(', ')}], in the order of the ranks` },
  );
}

/**
 * Puts the parts of all processes into `whole`, row by row side by side. `part` holds this process's, and
 * then others'.
 */
function gather(
  part: Uint8Array,
  { group, numRows, whole }: { group: ProcessGroup; numRows: number; whole: Uint8Array },
): void {
  const width = part.length / numRows;
  using own = Tensor.from(part, { shape: [part.length], dtype: 'uint8' });
  using other = Tensor.empty({ shape: [part.length], dtype: 'uint8' });
  for (let root = 0; root < group.size; root++) {
    const sent = root === group.rank ? own : other;
    group.broadcast(sent, { root }).wait();
    sent.readInto(part);
    for (let row = 0; row < numRows; row++) {
      whole.set(part.subarray(row * width, (row + 1) * width), (row * group.size + root) * width);
    }
  }
}
