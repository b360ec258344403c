import { dtypeBytes, type LogicalTensor, type TensorSource } from '@mtl/checkpoint';
import { UsageError } from '@mtl/errors';
import { decodeFloats, encodeFloats, ScratchMemory, type WritableDtype } from './float-bytes.js';
import { findMapping, type WeightNames, writableDtype } from './mapped-weights.js';
import type { WeightMapping } from './weight-mapping.js';

/** A model's tensor, and its mapping to tensors of a file. */
export interface MappedTensor {
  readonly mapping: WeightMapping;
  readonly tensor: LogicalTensor;
}

/**
 * Returns a model's tensors with their mappings, in the order of the mappings.
 *
 * @throws UsageError MTL_HUGGING_FACE_TENSOR for a tensor that is missing, unknown or only a slice;
 *   CheckpointError MTL_HUGGING_FACE_SHAPE
 */
export function mappedTensors(
  { mappings }: WeightNames,
  tensors: readonly LogicalTensor[],
): readonly MappedTensor[] {
  const byName = new Map(mappings.map((mapping) => [mapping.name, mapping]));
  // a tied embedding may occur twice, on the first and on the last pipeline stage
  const given = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  for (const tensor of given.values()) {
    findMapping(tensor, byName);
    if (tensor.slices.some(({ start, end }, dim) => start !== 0 || end !== tensor.globalShape[dim])) {
      throw new UsageError('MTL_HUGGING_FACE_TENSOR', `only a slice of ${tensor.name} is given`, {
        remedy: 'gather the model, or load its checkpoint into one process',
      });
    }
  }
  return mappings.map((mapping) => {
    const tensor = given.get(mapping.name);
    if (tensor !== undefined) return { mapping, tensor };
    throw new UsageError('MTL_HUGGING_FACE_TENSOR', `${mapping.name} is missing among the tensors to save`, {
      expected: 'every parameter of the model',
    });
  });
}

/** Returns the number of bytes that a tensor needs. */
const countBytes = ({ globalShape, dtype }: LogicalTensor): number =>
  globalShape.reduce((product, size) => product * size, dtypeBytes[dtype]);

/**
 * Reads complete tensors and converts them to the layout of a file. Each read overwrites the values of the
 * previous read. Needs memory for a tensor in its own dtype, a copy in float32 if the dtype differs, and a
 * copy in the file's layout if the layout differs.
 */
export class WholeTensors {
  readonly #scratch: ScratchMemory;
  #last: { readonly mapping: WeightMapping; readonly values: readonly Float32Array[] } | undefined;

  constructor(tensors: readonly LogicalTensor[]) {
    const bytesOnTheWay = ({ globalShape }: LogicalTensor): number =>
      globalShape.reduce((product, size) => product * size, 3 * Float32Array.BYTES_PER_ELEMENT) + 64;
    this.#scratch = new ScratchMemory(tensors.map(bytesOnTheWay).reduce((a, b) => Math.max(a, b), 0));
  }

  /**
   * Returns the values of one of a tensor's sources. If all sources are read in order, the tensor itself is
   * read only once.
   */
  async read({ mapping, tensor }: MappedTensor, source: number): Promise<Float32Array> {
    if (this.#last?.mapping !== mapping || source === 0) {
      this.#scratch.reset();
      const logical = decodeFloats(
        await this.#readBytes(tensor),
        writableDtype(tensor),
        this.#scratch.floats,
      );
      this.#last = { mapping, values: mapping.toSources(logical, this.#scratch.floats) };
    }
    return this.#last.values[source]!;
  }

  async #readBytes(tensor: LogicalTensor): Promise<Uint8Array> {
    if (tensor.readInto === undefined) return await tensor.read();
    const whole = this.#scratch.bytes(countBytes(tensor));
    await tensor.readInto(whole);
    return whole;
  }
}

/**
 * Returns the tensors of a safetensors directory, which must be read in this order. Each read overwrites the
 * values of the previous read. A tensor that is stored as several consecutive tensors is read once. The peak
 * memory is twice the size of the largest tensor in float32, or three times if the layouts differ.
 */
export function mappedWeightSources(options: {
  readonly names: WeightNames;
  readonly tensors: readonly LogicalTensor[];
  readonly dtype: WritableDtype;
  /** Adds the file's prefix, if any, to a tensor's name. */
  fileName(name: string): string;
}): TensorSource[] {
  const { names, tensors, dtype, fileName } = options;
  const whole = new WholeTensors(tensors);
  return mappedTensors(names, tensors).flatMap((mapped) => {
    const { mapping } = mapped;
    const stored = mapping.dtype ?? dtype;
    return mapping.sources.map(({ name, shape }, position) => ({
      name: fileName(name),
      dtype: stored,
      shape,
      check: {
        place: 'the model to save',
        name: fileName(name),
        slices: shape.map((size) => ({ start: 0, end: size })),
        remedy: `take other weights${dtype === 'F32' ? '' : `, or save them as float32 if they do not fit ${dtype}`}`,
      },
      read: async () => encodeFloats(await whole.read(mapped, position), stored),
    }));
  });
}
