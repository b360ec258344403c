import { UsageError } from '@mtl/errors';
import {
  type Dtype,
  type LogicalTensor,
  type Slice,
  shapeDefect,
  shapeOfSlices,
  slicesDefect,
  type ValueLimit,
  volumeOfShape,
  wholeSlices,
} from '@mtl/layout';
import { dtypeBytes, isDtype } from './dtype.js';

/** A logical tensor whose values are in host memory. */
export interface HostTensor extends LogicalTensor {
  readonly memory: Uint8Array;
}

/**
 * Calls `fill` with memory for the box of a tensor. If the tensor provides memory (`withMemory`), this memory
 * is used. Otherwise the memory that `spare` returns is used, and written to the tensor afterwards.
 *
 * @param spare returns memory of the size of the box
 * @throws UsageError MTL_CHECKPOINT_TENSOR if the memory that the tensor provides does not have the size of
 *   the box
 */
export async function fillTensor(
  tensor: LogicalTensor,
  spare: () => Uint8Array,
  fill: (memory: Uint8Array) => Promise<void>,
): Promise<void> {
  if (tensor.withMemory === undefined) {
    const memory = spare();
    await fill(memory);
    await tensor.write(memory);
    return;
  }
  await tensor.withMemory(async (memory) => {
    const bytes = bytesOfSlices(tensor.dtype, tensor.slices);
    if (memory.length !== bytes) {
      throw wrongTensor(tensor, `its memory has ${memory.length} bytes`, `${bytes} for its slices`);
    }
    await fill(memory);
  });
}

/** Returns the size of a box in bytes. */
export function bytesOfSlices(dtype: Dtype, slices: readonly Slice[]): number {
  return volumeOfShape(shapeOfSlices(slices)) * dtypeBytes[dtype];
}

/**
 * Makes a logical tensor whose values are in host memory.
 *
 * @param options.memory the bytes of the box, which a load overwrites
 * @param options.slices the box. Default: the complete tensor
 */
export function hostTensor(options: {
  readonly name: string;
  readonly dtype: Dtype;
  readonly globalShape: readonly number[];
  readonly slices?: readonly Slice[];
  readonly replica?: number;
  readonly limit?: ValueLimit;
  readonly memory: Uint8Array;
}): HostTensor {
  const { memory } = options;
  return {
    slices: wholeSlices(options.globalShape),
    ...options,
    read: () => memory,
    write: (bytes) => memory.set(bytes),
    withMemory: (fill) => fill(memory),
  };
}

function wrongTensor({ name }: Pick<LogicalTensor, 'name'>, problem: string, expected?: string): UsageError {
  return new UsageError('MTL_CHECKPOINT_TENSOR', `logical tensor ${JSON.stringify(name)}: ${problem}`, {
    ...(expected === undefined ? {} : { expected }),
  });
}

/**
 * Checks tensors that a caller wants to save or load: names, dtypes, shapes and slices must be valid, and no
 * box may be given twice.
 *
 * @throws UsageError MTL_CHECKPOINT_TENSOR
 */
export function checkLogicalTensors(tensors: readonly LogicalTensor[]): void {
  const seen = new Map<string, LogicalTensor>();
  for (const tensor of tensors) {
    const { name, dtype, globalShape, slices } = tensor;
    const fail = (problem: string, expected?: string): never => {
      throw wrongTensor(tensor, problem, expected);
    };
    if (name === '' || name === '__metadata__') fail('the name is reserved', 'a name of its own');
    if (!isDtype(dtype)) fail(`unknown dtype ${JSON.stringify(dtype)}`, Object.keys(dtypeBytes).join(', '));
    const defect = shapeDefect(globalShape) ?? slicesDefect(slices, globalShape);
    if (defect !== undefined) fail(defect);
    const first = seen.get(name);
    seen.set(name, first ?? tensor);
    if (first !== undefined && (first.dtype !== dtype || first.globalShape.join() !== globalShape.join())) {
      fail('given twice with different dtypes or global shapes');
    }
  }
}
