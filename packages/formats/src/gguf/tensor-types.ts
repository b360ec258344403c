/**
 * The supported tensor types of GGUF files, by their names in ggml. Files contain `id`; every `blockValues`
 * values are stored as one block of `blockBytes` bytes (see ggml.h and ggml-common.h).
 */
export const tensorTypes = {
  F32: { id: 0, blockValues: 1, blockBytes: 4 },
  F16: { id: 1, blockValues: 1, blockBytes: 2 },
  Q4_0: { id: 2, blockValues: 32, blockBytes: 18 },
  Q5_0: { id: 6, blockValues: 32, blockBytes: 22 },
  Q5_1: { id: 7, blockValues: 32, blockBytes: 24 },
  Q8_0: { id: 8, blockValues: 32, blockBytes: 34 },
  Q4_K: { id: 12, blockValues: 256, blockBytes: 144 },
  Q5_K: { id: 13, blockValues: 256, blockBytes: 176 },
  Q6_K: { id: 14, blockValues: 256, blockBytes: 210 },
  BF16: { id: 30, blockValues: 1, blockBytes: 2 },
} as const;

/** The name of a supported tensor type. */
export type TensorType = keyof typeof tensorTypes;

/** Returns the tensor type with the given id, or undefined if it is not supported. */
export const findTensorType = (id: number): TensorType | undefined =>
  (Object.keys(tensorTypes) as TensorType[]).find((name) => tensorTypes[name].id === id);

/** Returns the number of bytes that `numValues` values need. The values must form complete blocks. */
export function bytesOfValues(type: TensorType, numValues: number): number {
  const { blockValues, blockBytes } = tensorTypes[type];
  return (numValues / blockValues) * blockBytes;
}

/**
 * Returns the length of a tensor's rows, which is its last dimension. A block never crosses the end of a row.
 */
export const rowLength = (shape: readonly number[]): number => shape.at(-1) ?? 1;

/** Returns true if rows of `length` values consist of complete blocks of the given type. */
export const fitsRows = (type: TensorType, length: number): boolean =>
  length % tensorTypes[type].blockValues === 0;
