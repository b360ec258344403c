import { UsageError } from '@mtl/errors';
import {
  type Slice,
  shapeDefect,
  shapeOfSlices,
  slicesDefect,
  volumeOfShape,
  wholeSlices,
} from '@mtl/layout';
import { type Dtype, dtypeBytes, isDtype } from './dtype.js';
import type { ValueLimit } from './finite-values.js';

/**
 * The part of a tensor that a rank holds, under the name and shape that the tensor has without any
 * parallelism. Bytes are little-endian, row-major, of exactly the box `slices`.
 */
export interface LogicalTensor {
  readonly name: string;
  readonly dtype: Dtype;
  readonly globalShape: readonly number[];
  /** One [start, end) per dimension; an empty range means that this rank holds nothing of the tensor. */
  readonly slices: readonly Slice[];
  /** 0 (the default) for the copy that a save writes; another number for copies on further ranks. */
  readonly replica?: number;
  /**
   * Returns the bytes to save. They must stay as they are until the save asks for the next tensor or ends.
   */
  read(): Uint8Array | Promise<Uint8Array>;
  /**
   * Copies the bytes to save into memory of exactly their number, on a boundary of 8 bytes. A save uses it in
   * place of `read`, where there is one, with one buffer for all tensors: memory that `read` allocates waits
   * for the garbage collector, and adds up.
   */
  readInto?(target: Uint8Array): void | Promise<void>;
  /** Takes the loaded bytes; they are the loader's again once this has returned or resolved. */
  write(bytes: Uint8Array): void | Promise<void>;
  /**
   * F32 only: a magnitude that makes a value as wrong as infinity does; see {@link
   * SaveOptions.requireFinite}.
   */
  readonly limit?: ValueLimit;
  /**
   * Lends host memory of the box while `fill` runs: a load then fills the memory directly and does not call
   * `write`. A tensor with another `write` has none.
   */
  withMemory?(fill: (memory: Uint8Array) => Promise<void>): Promise<void>;
}

/** A logical tensor over host memory. */
export interface HostTensor extends LogicalTensor {
  readonly memory: Uint8Array;
}

/**
 * Has memory for the box of a tensor filled: memory that the tensor lends, or else `spare`, which is written
 * to the tensor afterwards.
 *
 * @param spare gives memory of the bytes of the box
 * @throws UsageError MTL_CHECKPOINT_TENSOR for lent memory of another size
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

/** Returns the number of bytes of the box that a rank holds. */
export function bytesOfSlices(dtype: Dtype, slices: readonly Slice[]): number {
  return volumeOfShape(shapeOfSlices(slices)) * dtypeBytes[dtype];
}

/**
 * Makes a logical tensor over host memory.
 *
 * @param options.memory the bytes of the box, in place: a load overwrites them
 * @param options.slices the whole tensor by default
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
 * Checks the tensors of callers that save and load: names, dtypes, shapes, slices, and that no box is given
 * twice.
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
