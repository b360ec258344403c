import type { FileHandle } from 'node:fs/promises';
import { CheckpointError } from '@mtl/errors';
import { aligned, encodeHeader, type Metadata } from './metadata.js';
import { publishFile } from './publish-file.js';
import { codecs } from './quantization/codecs.js';
import { bytesOfValues, rowLength, type TensorType, tensorTypes } from './tensor-types.js';

/** A tensor to write. */
export interface GgufTensorSource {
  readonly name: string;
  /** The shape in row-major order. */
  readonly shape: readonly number[];
  readonly type: TensorType;
  /**
   * Yields the values in row-major order, in blocks of complete rows. An array is valid until the next array
   * is requested.
   */
  read(): AsyncIterable<Float32Array>;
}

/** How many values are encoded at a time. This limits the memory for the encoded bytes. */
const valuesAtOnce = 2 ** 20;

const numValues = (shape: readonly number[]): number => shape.reduce((product, size) => product * size, 1);

/** Writes all bytes, with several calls if needed, because a call writes at most 2 GiB on Linux. */
async function writeFully(handle: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let start = 0; start < bytes.length; ) {
    start += (await handle.write(bytes, start, bytes.length - start)).bytesWritten;
  }
}

/**
 * Rejects values that the tensor's type cannot represent.
 *
 * @throws CheckpointError MTL_NOT_FINITE
 */
function checkLimit(values: Float32Array, { name, type }: GgufTensorSource): void {
  const { maxAbsolute } = codecs[type];
  for (let index = 0; index < values.length; index++) {
    const value = values[index]!;
    if (Math.abs(value) <= maxAbsolute) continue;
    const isTooLarge = Number.isFinite(value);
    throw new CheckpointError('MTL_NOT_FINITE', `the model to save: ${name} has the value ${value}`, {
      expected: isTooLarge ? `at most ${maxAbsolute}, the limit of ${type}` : 'finite weights',
      remedy: isTooLarge ? 'save the weights as float32' : 'take other weights',
      exitCode: 2,
    });
  }
}

async function writeTensor(handle: FileHandle, tensor: GgufTensorSource): Promise<void> {
  const { shape, type } = tensor;
  const length = rowLength(shape);
  const step = Math.max(1, Math.floor(valuesAtOnce / length)) * length;
  let written = 0;
  for await (const part of tensor.read()) {
    for (let start = 0; start < part.length; start += step) {
      const values = part.subarray(start, start + step);
      checkLimit(values, tensor);
      const bytes = codecs[type].encode(values);
      await writeFully(handle, bytes);
      written += bytes.length;
    }
  }
  await writeFully(handle, new Uint8Array(aligned(written) - written));
}

/**
 * Writes a GGUF file tensor by tensor, but atomically.
 *
 * @throws CheckpointError MTL_GGUF_EXISTS, MTL_GGUF_IO, MTL_NOT_FINITE; the coded errors of reading the
 * tensors
 */
export async function writeGgufFile(options: {
  readonly path: string;
  readonly metadata: Metadata;
  readonly tensors: readonly GgufTensorSource[];
}): Promise<void> {
  const { path, metadata, tensors } = options;
  let offset = 0;
  const infos = tensors.map(({ name, shape, type }) => {
    const info = { name, shape, typeId: tensorTypes[type].id, offset };
    offset += aligned(bytesOfValues(type, numValues(shape)));
    return info;
  });
  await publishFile(path, async (handle) => {
    await writeFully(handle, encodeHeader(metadata, infos));
    for (const tensor of tensors) await writeTensor(handle, tensor);
  });
}
